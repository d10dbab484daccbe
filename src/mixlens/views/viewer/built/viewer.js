/* mixlens viewer, built from web/ 0afee7cedfb74c43abad2210ba791910ffcfba5c5d1a04e1f18b861954f57e43 */
"use strict";var mixlensViewer=(()=>{var Qt=Object.defineProperty;var $s=Object.getOwnPropertyDescriptor;var As=Object.getOwnPropertyNames;var Cs=Object.prototype.hasOwnProperty;var Ss=(i,t)=>{for(var e in t)Qt(i,e,{get:t[e],enumerable:!0})},Ls=(i,t,e,s)=>{if(t&&typeof t=="object"||typeof t=="function")for(let n of As(t))!Cs.call(i,n)&&n!==e&&Qt(i,n,{get:()=>t[n],enumerable:!(s=$s(t,n))||s.enumerable});return i};var Ps=i=>Ls(Qt({},"__esModule",{value:!0}),i);var Pn={};Ss(Pn,{render:()=>Ln});var st=i=>[Number.parseInt(i.slice(1,3),16),Number.parseInt(i.slice(3,5),16),Number.parseInt(i.slice(5,7),16)],Y={dark:!1,paper:"#ffffff",ink:"#16191d",quiet:"#59626d",line:"#dfe3e8",band:"#f4f6f8",plus:["#f6f8fb","#cfe1f4","#9cc4ea","#5f9fdb","#2a74bd","#0b4586"].map(st),minus:["#fbf8f5","#fbdfc8","#f5b988","#e58b43","#bf5f14","#803604"].map(st)},Ae={dark:!0,paper:"#101316",ink:"#e8ebef",quiet:"#a0a9b4",line:"#2c333b",band:"#191e23",plus:["#181c21","#14324f","#1a517f","#2f7ab8","#62a9e0","#b4daf8"].map(st),minus:["#1e1b18","#452811","#754015","#ad611f","#e08a40","#fcc797"].map(st)},Ce={...Y,plus:["#f8fafc","#e2edf8","#c9def3","#aecdee","#8cb9e6","#659fda"].map(st),minus:["#fdfaf7","#fcead9","#f9d6b8","#f3be92","#eba468","#dd8a44"].map(st)};function Os(i,t){let e=Math.min(1,Math.max(0,t))*(i.length-1),s=Math.min(Math.floor(e),i.length-2),n=e-s,[r,o]=[i[s],i[s+1]];return[0,1,2].map(a=>Math.round(r[a]+(o[a]-r[a])*n))}function x(i,t){return Os(t<0?i.minus:i.plus,Math.abs(t))}var k=([i,t,e])=>`rgb(${i}, ${t}, ${e})`;function Hs(i){let[t,e,s]=i.map(n=>{let r=n/255;return r<=.04045?r/12.92:((r+.055)/1.055)**2.4});return .2126*t+.7152*e+.0722*s}function X(i){return Hs(i)>.179?"#000000":"#ffffff"}function zs(i){let t=atob(i),e=new Uint8Array(t.length);for(let s=0;s<t.length;s++)e[s]=t.charCodeAt(s);return e}var Ns=(()=>{let i=new Float32Array(65536);for(let t=0;t<65536;t++){let e=t&32768?-1:1,s=t>>10&31,n=t&1023;s===0?i[t]=e*n*2**-24:s===31?i[t]=n?Number.NaN:e*Number.POSITIVE_INFINITY:i[t]=e*(1+n/1024)*2**(s-15)}return i})();function U(i){let t=zs(i.data).buffer;switch(i.dtype){case"float16":{let e=new Uint16Array(t),s=new Float32Array(e.length);for(let n=0;n<e.length;n++)s[n]=Ns[e[n]];return s}case"float32":return new Float32Array(t);case"uint16":return new Uint16Array(t);case"uint32":return new Uint32Array(t);default:throw new Error(`Unknown dtype ${i.dtype} of an array.`)}}function nt(i){return i.kind==="dense"?new te(i.shares):new ee(i)}var te=class{constructor(t){this.complete=!0;let e=t.shape;this.sources=e[e.length-1],this.targets=e[e.length-2],this.layers=e.slice(0,-2).reduce((s,n)=>s*n,1),this.values=U(t)}eachOfRow(t,e,s){let n=(t*this.targets+e)*this.sources;for(let r=0;r<this.sources;r++){let o=this.values[n+r];o!==0&&s(r,o)}}eachOfColumn(t,e,s){let n=t*this.targets*this.sources+e;for(let r=0;r<this.targets;r++){let o=this.values[n+r*this.sources];o!==0&&s(r,o)}}},ee=class{constructor(t){this.complete=!1;this.columns=new Map;[this.layers,this.targets,this.sources]=t.shape,this.starts=U(t.starts),this.indices=U(t.indices),this.values=U(t.values)}eachOfRow(t,e,s){let n=t*this.targets+e;for(let r=this.starts[n];r<this.starts[n+1];r++)s(this.indices[r],this.values[r])}eachOfColumn(t,e,s){let{starts:n,rows:r,values:o}=this.columnsOf(t);for(let a=n[e];a<n[e+1];a++)s(r[a],o[a])}columnsOf(t){let e=this.columns.get(t);if(e)return e;let s=new Uint32Array(this.sources+1);for(let l=0;l<this.targets;l++)this.eachOfRow(t,l,h=>s[h+1]++);for(let l=0;l<this.sources;l++)s[l+1]+=s[l];let n=s.slice(),r=new Uint32Array(s[this.sources]),o=new Float32Array(r.length);for(let l=0;l<this.targets;l++)this.eachOfRow(t,l,(h,u)=>{let d=n[h]++;r[d]=l,o[d]=u});let a={starts:s,rows:r,values:o};return this.columns.set(t,a),a}};var oe=/[^ \t\n\r]+/g,Rs=60,se=class{constructor(t){this.shares=nt(t.shares),this.totals=U(t.totals)}get columns(){return this.shares.sources}get lines(){return this.totals.length}of(t,e,s){let n=new Float64Array(this.columns),r=s?1:1/Math.max(1,e-t);for(let o=t;o<e;o++){let a=this.totals[o]*r;this.shares.eachOfRow(0,o,(l,h)=>{n[l]+=h*a})}return n}},ne=class{constructor(t){this.read=t;this.known=new Map}of(t){return this.known.has(t)||this.known.set(t,this.read(t)),this.known.get(t)}get documents(){return this.of("documents")}get passages(){return this.of("passages")}get words(){return this.of("words")}get kinds(){return this.of("kinds")}get patches(){return this.of("patches")}},re=class{constructor(t,e){this.about=t;this.sentences=e;let s=n=>n?new se(n):null;this.tables={documents:s(t.documents),passages:s(t.passages),words:s(t.words),kinds:s(t.kinds),patches:s(t.patches??null)}}get tokens(){return this.tables.documents.lines-this.sentences-1}of(t,e){return new ne(s=>this.tables[s]?.of(t,e,this.about.removes)??null)}},vt=class{constructor(t){this.about=t;this.passages=[];this.firstWord=[];this.known=new Map;this.documents=t.blocks.filter(s=>s.document>=0).map(s=>s.name),this.methods=t.methods.map(()=>null);for(let{document:s,pieces:n}of t.blocks)for(let[r,o]of n)o>=0&&(this.passages[o]={text:r,document:s});let e=0;for(let{text:s}of this.passages)this.firstWord.push(e),e+=s.match(oe)?.length??0}lines(t,e){let{words:s,sentences:n}=this.about,r=Number(t.slice(1));if(t[0]==="w")return[s[r].first,s[r].stop];let o=e+(t?r:n.length);return[o,o+1]}text(t){let{words:e,sentences:s}=this.about;return t?(t[0]==="w"?e:s)[Number(t.slice(1))].text:"This answer"}isPart(t){let e=Number(t.slice(1)),{words:s,sentences:n}=this.about;return t===""?!0:t[0]==="w"?e in s:t[0]==="s"&&e in n}of(t,e){let s=`${t} ${e}`,n=this.known.get(s);if(!n){let r=this.methods[t]??=new re(this.about.methods[t],this.about.sentences.length);n=r.of(...this.lines(e,r.tokens)),this.known.size>Rs&&this.known.clear(),this.known.set(s,n)}return n}passageOf(t){let e=0,s=this.firstWord.length-1;for(;e<s;){let n=e+s+1>>1;this.firstWord[n]<=t?e=n:s=n-1}return e}};function ut(i){let t=0;for(let e of i)t+=Math.max(0,e);return i.map(e=>t>0?Math.max(0,e)/t:0)}function R(i,t){let e=[];for(let s=0;s<i.length;s++)i[s]>0&&e.push(s);return e.sort((s,n)=>i[n]-i[s]||s-n).slice(0,t)}var Fs={0:"NUL",7:"BEL",8:"BS",9:"TAB",10:"↵",13:"CR",27:"ESC",127:"DEL",160:"NBSP",173:"SHY",1564:"ALM",6158:"MVS",8203:"ZWSP",8204:"ZWNJ",8205:"ZWJ",8206:"LRM",8207:"RLM",8232:"LS",8233:"PS",8234:"LRE",8235:"RLE",8236:"PDF",8237:"LRO",8238:"RLO",8288:"WJ",8294:"LRI",8295:"RLI",8296:"FSI",8297:"PDI",65279:"BOM",65532:"OBJ"},js=/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u00a0\ufffc]/gu,Se=/[\p{L}\p{M}\p{Extended_Pictographic}\ufe0f\u{1f3fb}-\u{1f3ff}]/u;function _(i){return i.replace(js,(t,e)=>{let s=t.codePointAt(0);if(s===10)return"↵";if(s===8204||s===8205){let n=[...i.slice(0,e)].pop()??"",r=[...i.slice(e+1)][0]??"";if(Se.test(n)&&Se.test(r))return t}return`⟨${Fs[s]??`U+${s.toString(16).toUpperCase().padStart(4,"0")}`}⟩`})}var F=class{constructor(t,e,s=new Set){this.text=t;this.unit=e;this.open=s;this.groups=qs(t,e,s),this.of=new Int32Array(t.labels.length),this.groups.forEach((n,r)=>this.of.fill(r,n.start,n.stop))}get size(){return this.groups.length}label(t){let{start:e,stop:s,segment:n}=this.groups[t],r=n===null?void 0:this.text.segments[n][2];return r===void 0?this.beginning(e,s,n!==null):_(r)}placed(t){let{start:e,segment:s}=this.groups[t],n=this.label(t);if(s!==null||!this.text.segments)return n;let r=this.text.segments[ie(this.text,e)]?.[2];return r===void 0||n.startsWith(r)?n:`${n} (${_(r)})`}beginning(t,e,s){let n=s?Math.min(e,t+6):e,r="";for(let o=t;o<n;o++)r+=(o>t?this.text.gaps[o].replace(/\s+/g," "):"")+this.text.shown[o];return _(r)+(n<e?" …":"")}special(t){let{start:e,stop:s}=this.groups[t];return this.text.special.slice(e,s).every(n=>n===1)}};function qs(i,t,e){let s=i.labels.length,n=(o,a)=>Array.from({length:a-o},(l,h)=>({start:o+h,stop:o+h+1,segment:null})),r=(o,a)=>i.words?i.words.filter(([l,h])=>l<a&&h>o).map(([l,h])=>({start:Math.max(l,o),stop:Math.min(h,a),segment:null})):n(o,a);return t==="tokens"?n(0,s):t==="words"||!i.segments?r(0,s):i.segments.flatMap(([o,a],l)=>e.has(l)?r(o,a):[{start:o,stop:a,segment:l}])}function ie(i,t){return i.segments?i.segments.findIndex(([e,s])=>e<=t&&t<s):-1}var Ws=.1,Ds=.5,Le=4,Is=64;function Pe(i){let t=[];return i.special.forEach((e,s)=>{e&&!/mask/i.test(i.labels[s])&&t.push(s)}),t}function Oe(i,t,e){let s=new Set;if(t==="others"){i.labels.forEach((n,r)=>s.add(r));for(let[n,r,o]of i.segments??[])if(o!==void 0&&e.has(o))for(let a=n;a<r;a++)s.delete(a)}if(t==="special"||t==="both")for(let n of Pe(i))s.add(n);return(t==="first"||t==="both")&&s.add(0),s}function ae(i,t){let{sources:e}=i;if(e.seconds||e.labels.length<2)return[];let s=[["none","nothing"]],n=Pe(e);n.length&&s.push(["special","special tokens"]);let r=n[0]===0;return(n.length!==1||!r)&&s.push(["first","first token (attention sink)"]),n.length&&!r&&s.push(["both","special and first tokens"]),e.segments?.some(([,,o])=>o!==void 0&&t.has(o))&&s.push(["others","all but documents"]),s}function He(i,t){let e=_s(i,t);if(e.length<Le||e[0].values.length<Le)return null;let s=new Float64Array(e[0].values.length),n=new Float64Array(s.length);for(let{own:a,values:l}of e)l.forEach((h,u)=>{u!==a&&(s[u]+=h,n[u]+=1)});s.forEach((a,l)=>s[l]=n[l]?a/n[l]:0);let r=s.reduce((a,l)=>a+l,0),o=0;for(let{own:a,values:l}of e){let h=r-(s[a]??0);l.forEach((u,d)=>{let p=d===a||h<=0?0:s[d]/h;o+=Math.abs(u-p)/2/e.length})}return o<Ws?{distance:o,first:s[0]/r}:null}function _s(i,t){let{held:e,square:s}=i,n=new F(i.sources,"tokens"),r=new F(i.targets,"tokens"),o=Math.max(1,e.length/Is),a=[];for(let l=0;l<e.length;l+=o){let h=e[Math.floor(l)],u=s?h:-1,d=i.incoming(t,r,h,n).map(Math.abs);s&&(d[u]=0);let p=d.reduce((m,f)=>m+f,0);p>0&&a.push({own:u,values:d.map(m=>m/p)})}return a}var ze=i=>i.first>Ds;function W(i){return typeof i=="string"&&i.startsWith("to")?Number(i.slice(2)):null}function xt(i){return i==="all"||i==="mean"||i.startsWith("to")?i:Number(i)}var wt=class{constructor(t,e){this.entry=e;this.norms=new WeakMap;this.without=new Set;this.targets=t.texts[e.targets],this.sources=t.texts[e.sources],this.square=e.targets===e.sources,this.held=e.target_positions??this.targets.labels.map((n,r)=>r),this.rowOf=new Map(this.held.map((n,r)=>[n,r])),this.layers=e.scores&&nt(e.scores),this.joined=e.joined&&nt(e.joined.scores),this.perHead=e.heads?nt(e.heads):null,this.heads=this.perHead?this.perHead.layers/e.layers.length:0;let s=n=>n?U(n):null;this.totals=s(e.totals),this.joinedTotals=s(e.joined?.totals)}leaveOut(t){this.without=t,this.norms=new WeakMap}get complete(){return(this.layers?.complete??!0)&&(this.joined?.complete??!0)}get whole(){return this.square&&this.entry.target_positions===null&&this.layers!==null}get canFlow(){return this.whole&&this.joined!==null&&!this.entry.reaches_input}get depths(){let t=this.entry.layers.map((l,h)=>h),{joined:e,reaches_input:s}=this.entry,n=e?.how==="mean"||e?.how==="sum()",r=t.length>1&&!s&&!n?["mean"]:[],o=this.joined?["all"]:[];return[...this.entry.reading==="all"?[...o,...r]:[...r,...o],...this.upTo,...t]}get upTo(){let t=this.joined?.layers??0;return Array.from({length:Math.max(0,t-1)},(e,s)=>`to${s}`)}get defaultDepth(){let{reading:t,layers:e}=this.entry;return t!==void 0&&this.depths.includes(t)?t:this.depths.includes("mean")?"mean":this.joined?"all":e.length-1}hasOwnShare(t){let{own_share:e,joined:s}=this.entry;return!!(this.isJoined(t)?s.own_share:e)}warningAt(t){let{warnings:e,joined:s}=this.entry;return this.isJoined(t)?s.warnings?.[this.joinedLayer(t)]??null:typeof t=="number"?e?.[t]??null:null}joinedLayer(t){return W(t)??this.joined.layers-1}isJoined(t){return this.joined!==null&&typeof t=="string"&&t!=="mean"}depthName(t){if(t==="mean")return`Mean of ${this.entry.layers.length} layers`;let e=this.entry.joined?.how.replace(/\(.*/,"")??"";if(t==="all"&&e==="last")return"Last layer";if(t==="all")return/^-?\d+$/.test(e)?`Layer ${e}`:`All layers (${e})`;let s=W(t);if(s!==null)return`Layers up to ${this.entry.layers[s]} (${e})`;let n=(this.entry.provenance.steps??[]).find(o=>/^(rollout|flow)/.test(o)),r=`Layer ${this.entry.layers[t]}`;return n?`${r} (${n.replace(/\(.*/,"")} up to it)`:r}holds(t){return this.rowOf.has(t)}planes({depth:t,head:e}){return this.isJoined(t)?[this.joinedPlane(this.joinedLayer(t))]:typeof t=="string"?this.entry.layers.flatMap((s,n)=>this.planes({depth:n,head:e})):e!==null&&this.perHead?[{shares:this.perHead,layer:t*this.heads+e,totals:null}]:this.layers?[{shares:this.layers,layer:t,totals:this.part(this.totals,t)}]:[]}joinedPlane(t){return{shares:this.joined,layer:t,totals:this.part(this.joinedTotals,t)}}part(t,e){let s=this.held.length;return t?.subarray(e*s,(e+1)*s)??null}rows(t,e){let{start:s,stop:n}=t.groups[e],r=[];for(let o=s;o<n;o++){let a=this.rowOf.get(o);a!==void 0&&r.push(a)}return r}incoming(t,e,s,n){let r=new Float64Array(n.size),o=this.planes(t),a=this.rows(e,s);for(let l of o){let h=o.length>1?new Float64Array(n.size):r,u=this.accumulate(l,a,n,h),d=u>0?1/u/o.length:0;for(let p=0;p<h.length;p++)h===r?r[p]*=d:r[p]+=h[p]*d}return r}shareOf(t,e,s,n){let r=this.planes(t),o=this.rows(e,s),a=0;for(let{shares:l,layer:h,totals:u}of r){let[d,p]=[0,0];for(let m of o){let f=u?u[m]:1;p+=f,l.eachOfRow(h,m,(g,b)=>{n.has(g)&&(d+=Math.abs(b)*f)})}p>0&&(a+=d/p/r.length)}return a}accumulate(t,e,s,n){let r=0;for(let a of e){let l=t.totals?t.totals[a]:1,h=0;t.shares.eachOfRow(t.layer,a,(u,d)=>{this.without.has(u)||(n[s.of[u]]+=d*l),h+=Math.abs(d)}),t.shares.complete||(r+=Math.max(0,1-h)*l)}let o=r;for(let a of n)o+=Math.abs(a);return o}outgoing(t,e,s,n){let r=new Float64Array(e.size),o=this.planes(t),{start:a,stop:l}=s.groups[n];for(let h of o){let u=this.normsOf(h,e,s);for(let d=a;d<l;d++)this.without.has(d)||h.shares.eachOfColumn(h.layer,d,(p,m)=>{let f=e.of[this.held[p]],g=u[f],b=h.totals?h.totals[p]:1;g>0&&(r[f]+=m*b/g/o.length)})}return r}normsOf(t,e,s){let n=this.norms.get(e)??new Map;this.norms.set(e,n);let r=`${t.shares===this.perHead} ${t.shares===this.joined} ${t.layer}`,o=n.get(r)??new Float64Array(e.size);if(n.has(r))return o;for(let a=0;a<e.size;a++){let l=this.rows(e,a);if(this.entry.signed||this.without.size)o[a]=this.accumulate(t,l,s,new Float64Array(s.size));else for(let h of l)o[a]+=t.totals?t.totals[h]:1}return n.set(r,o),o}eachTransition(t,e,s){let{residual:n=0,normalise:r}=this.entry.joined,o=this.entry.signed||!this.totals?1:this.totals[t*this.held.length+e],a=n;r!==!1&&this.layers.eachOfRow(t,e,(h,u)=>{a+=(1-n)*Math.abs(u)*o});let l=r===!1?1:a>0?1/a:0;n>0&&s(e,n*l),this.layers.eachOfRow(t,e,(h,u)=>s(h,(1-n)*Math.abs(u)*o*l))}total({depth:t,head:e},s){if(e!==null||typeof t!="number"||!this.totals)return null;let n=this.rowOf.get(s);return n===void 0?null:this.totals[t*this.held.length+n]}};function $(i,t){let e=[];for(let s=0;s<i.length;s++)s!==t&&i[s]!==0&&e.push({group:s,value:i[s]});return e.sort((s,n)=>Math.abs(n.value)-Math.abs(s.value)||s.group-n.group)}function S(i,t){let e=0;for(let s=0;s<i.length;s++)s!==t&&(e=Math.max(e,Math.abs(i[s])));return e}var Gs=new Set,yt=class{constructor(t,e,s){this.payload=t;this.state=e;this.actions=s;this.preview=null;this.groupings=new Map;this.patches=new Map;this.hidden="none";this.gone=new Map;this.likeness=new Map;this.measured=t.maps.map(n=>new wt(t,n)),this.answer=t.answer?new vt(t.answer):null,this.documents=new Set(this.answer?.documents)}leaveOut(){if(this.state.hide!==this.hidden){this.hidden=this.state.hide,this.gone.clear();for(let t of this.measured){let e=this.gone.get(t.sources)??Oe(t.sources,this.hidden,this.documents);this.gone.set(t.sources,e),t.leaveOut(e)}}}goneFrom(t){return this.gone.get(t)??Gs}get hiddenShare(){let t=this.goneFrom(this.current.sources);return t.size?this.current.shareOf(this.choice,this.targets,this.targetGroup,t):0}alike(t=this.state.depth){let{map:e,head:s,hide:n}=this.state,r=[e,t,s,n].join(" ");return this.likeness.has(r)||this.likeness.set(r,He(this.current,{depth:t,head:s})),this.likeness.get(r)}get current(){return this.measured[this.state.map]}get choice(){return{depth:this.state.depth,head:this.state.head}}get target(){return this.preview??this.state.target}isPatch(t,e){let{image:s}=this.payload;return s?t!==this.payload.texts[s.text??this.payload.maps[0].sources]?!1:e>=s.first&&e<s.first+s.rows*s.columns:this.patchesOf(t).has(e)}patchesOf(t){let e=this.patches.get(t);if(!e){let s=this.picturesOf(t).flatMap(({grids:n})=>n.flatMap(({first:r,rows:o,columns:a,stride:l})=>Array.from({length:o*a},(h,u)=>r+Math.floor(u/a)*l+u%a)));e=new Set(s),this.patches.set(t,e)}return e}picturesOf(t){let{image:e,images:s,texts:n}=this.payload;return e?[]:(s??[]).filter(r=>n[r.text]===t)}grouping(t){let e=this.state.unit==="segments"?this.openSegments(t):[],s=`${this.payload.texts.indexOf(t)} ${this.state.unit} ${e.join(",")}`,n=this.groupings.get(s);return n||(this.groupings.size>12&&this.groupings.clear(),n=new F(t,this.state.unit,new Set(e)),this.groupings.set(s,n)),n}fine(t){if(this.state.unit!=="segments")return this.grouping(t);let e=`${this.payload.texts.indexOf(t)} fine`,s=this.groupings.get(e)??new F(t,"words");return this.groupings.set(e,s),s}get ownShare(){return this.current.hasOwnShare(this.state.depth)}openSegments(t){let e=t===this.current.targets?ie(t,this.state.target):-1,s=new Set(this.state.open);return e>=0&&s.add(e),[...s].sort((n,r)=>n-r)}get targets(){return this.grouping(this.current.targets)}get sources(){return this.grouping(this.current.sources)}get targetGroup(){return this.targets.of[this.target]??0}get cueGroup(){let t=this.payload.start?.cue;return t==null?null:this.sources.of[t]??null}get own(){return this.current.square?this.targetGroup:-1}incoming(t=this.current,e=this.choice){return t.incoming(e,this.targets,this.targetGroup,this.sources)}outgoing(){let{current:t}=this;return t.outgoing(this.choice,this.targets,this.sources,this.targetGroup)}depthFor(t){return t.depths.includes(this.state.depth)?this.state.depth:t.defaultDepth}name(t){let{measure:e,provenance:s}=t.entry,n=s.site;return new Set(this.payload.maps.map(o=>o.provenance.site)).size>1&&n?`${e} · ${n}`:e}};function c(i,t={},...e){let s=document.createElement(i);for(let[n,r]of Object.entries(t))r==null||r===!1||(n.startsWith("on")?s.addEventListener(n.slice(2),r):n==="class"?s.className=String(r):s.setAttribute(n,r===!0?"":String(r)));return s.append(...e.filter(n=>n!=null&&n!==!1)),s}function Z(i,t){for(let[e,s]of Object.entries(t))i.style.setProperty(e,s);return i}function T(i){let t=[...i];return t.length>40?`${t.slice(0,39).join("")}…`:i}function kt(i){let t=i.length-1;return i.flatMap((e,s)=>[s===0?"":s===t?" and ":", ",...e])}function v(i){let t=Math.abs(i*100);if(t>0&&t<.005)return"under 0.01 %";let e=t>=9.95?0:t>=.095?1:2;return`${i<0?"−":""}${t.toFixed(e)} %`}var E=i=>`⁨${i}⁩`;function z(i,t,e,s){let n=c("select",{onchange:o=>s(o.target.value)}),r=new Map;for(let[o,a,l]of t){let h=l?r.get(l)??c("optgroup",{label:l}):n;l&&r.set(l,h),h!==n&&n.append(h),h.append(c("option",{value:o,selected:o===e},a))}return c("label",{class:"field"},c("span",{},i),n)}function N(i){let t={ArrowLeft:[-1,0],ArrowRight:[1,0],ArrowUp:[0,-1],ArrowDown:[0,1]};return c("canvas",{tabindex:"0",role:"img",onmousemove:i.over,onmouseleave:i.leave,onclick:i.choose,onkeydown:e=>{let s=t[e.key];e.key==="Enter"&&i.choose(),s&&(e.preventDefault(),i.step(...s))}})}var P=(i,t)=>Math.max(0,Math.min(t-1,i));function D(i,t){let e=c("details",{class:"behind"},c("summary",{},`${i} as a table`));return e.addEventListener("toggle",()=>{e.open&&Re(e,t())}),e}function I(i,t){i.open&&Re(i,t())}var Ne=400;function Re(i,[t,...e]){i.querySelector("div")?.remove();let s=c("table",{},c("thead",{},c("tr",{},...(t??[]).map(r=>c("th",{scope:"col"},r)))),c("tbody",{},...e.slice(0,Ne).map(r=>c("tr",{},...r.map((o,a)=>a?c("td",{},o):c("th",{scope:"row"},o)))))),n=e.length-Ne;i.append(c("div",{class:"wide",tabindex:"0",role:"region","aria-label":"Table"},s,n>0&&c("p",{},`${n} more rows are in the CSV file.`)))}function Fe(i){let{methods:t,provenance:e,uses_template:s}=i.answer.about,{name:n,reading:r,citation:o,removes:a}=t[i.state.method],l=e.name??e.model??"",h=[l&&`${l}${e.dtype?` in ${String(e.dtype)}`:""}`,`answer ${String(e.answer??"generated")}`,e.cut_at&&`cut after ${String(e.cut_at)} tokens`,`${n}, ${r}`,o,`mixlens ${i.payload.mixlens}`],u=[a?"A score is what the answer loses without the document. Percentages leave out negative scores.":"A percentage is a share of the scores of all documents. It is no probability, and no proof: a method can miss the evidence, and its shares depend on the length of documents."];return s&&u.push("mixlens wrote the prompt with the chat template of the model."),[...u.map(d=>c("p",{},d)),c("p",{},h.filter(Boolean).join(" · "))]}function je(i){let{current:t,payload:e}=i,{provenance:s,citation:n,summary:r,notes:o,measure:a,joined:l}=t.entry,h=Object.entries(s.options??{}).map(([f,g])=>`${f}=${String(g)}`).join(", "),u=(s.steps??[]).join(" → "),d=s.name??s.model??"",p=[d&&`${d}${s.dtype?` in ${String(s.dtype)}`:""}`,`${a}${h?` (${h})`:""}${u?` → ${u}`:""}`,l&&t.isJoined(i.state.depth)&&`layers joined by ${l.how}`,s.site,n,"shares in float16, three digits",`mixlens ${e.mixlens}`],m=[...o??[]];if(!t.complete){let f=Array.from(i.incoming()).reduce((g,b)=>g+Math.abs(b),0);m.push(`This page has only the largest shares of each row and column. For this target ${v(Math.max(0,1-f))} is left out.`)}return[c("p",{},c("b",{},a),r?`: ${r}.`:"."),c("p",{},p.filter(Boolean).join(" · ")),...m.map(f=>c("p",{},f))]}function Mt(i,t,e){return c("fieldset",{class:"checks"},c("legend",{class:"unseen"},i),...t.map(({name:s,summary:n})=>c("label",{title:n??""},c("input",{type:"checkbox",value:s,checked:e.has(s)}),` ${s}`)))}function rt(i){return[...i.querySelectorAll("fieldset input:checked")].map(t=>t.value)}var Bs=["user","assistant","system"],qe=64,Tt=class{constructor(t){this.turns=c("div",{class:"turns"});this.documents=c("div",{class:"papers"});this.answer=c("textarea",{rows:"2","aria-label":"Answer to explain",placeholder:"Leave empty, and the model answers",spellcheck:"false"});this.length=c("input",{type:"number",min:"1",value:String(qe)});this.methods=c("div");this.ticked=t?.methods??[],this.addTurn=We("Add a turn",()=>this.putTurn({role:"user",content:""}));let e=()=>this.putDocument(this.nextName(),"").querySelector("textarea").focus();for(let s of t?.messages??[{role:"user",content:""}])this.putTurn(s);for(let{name:s,text:n}of t?.documents??[])this.putDocument(s,n);this.element=c("div",{class:"live-part"},c("div",{class:"live-head"},c("h2",{},"Documents"),We("Add a document",e)),this.documents,c("div",{class:"live-head"},c("h2",{},"Prompt"),this.addTurn),this.turns,c("details",{class:"behind"},c("summary",{},"Methods, length and given answer"),this.methods,c("label",{class:"field"},c("span",{},"New tokens at most"),this.length),this.answer))}offer(t,e){let s=e.methods??[];this.methods.firstChild&&(this.ticked=rt(this.element));let n=this.ticked.filter(l=>s.includes(l));this.ticked=n.length?n:s.slice(0,1);let r=new Map(t.measures.map(({name:l,summary:h})=>[l,h])),o=s.map(l=>({name:l,summary:r.get(l)}));this.methods.replaceChildren(Mt("Methods",o,new Set(this.ticked))),this.addTurn.hidden=!e.chats;let a=t.limits?.new_tokens;a&&(this.length.max=String(a),this.length.value=String(Math.min(Number(this.length.value),a)))}job(t){let e=r=>[...r.children],n=e(this.turns).map(r=>({role:r.querySelector("select").value,content:r.querySelector("textarea").value})).filter(({content:r})=>r.trim());if(n.length===1&&(n[0].role="user"),!n.length)throw new Error("The prompt is empty. Type a question or a text.");return{model:t,messages:n,documents:e(this.documents).map(r=>({name:r.querySelector("input").value.trim(),text:r.querySelector("textarea").value})).filter(({text:r})=>r.trim()),answer:this.answer.value.trim()?this.answer.value:null,methods:rt(this.element),max_new_tokens:Number(this.length.value)||qe}}putTurn({role:t,content:e}){let s=c("textarea",{rows:"3","aria-label":"Prompt",spellcheck:"false"});s.value=e,s.placeholder="A question or a prompt. {documents} is where the documents go.";let n=c("select",{"aria-label":"Role"},...Bs.map(o=>c("option",{value:o,selected:o===t},o))),r=c("div",{class:"turn-row"},n,s,De("turn",()=>r.remove()));this.turns.append(r)}putDocument(t,e){let s=c("input",{type:"text","aria-label":"Name of the document"});s.value=t;let n=c("textarea",{rows:"3","aria-label":`Text of ${t}`,spellcheck:"false"});n.value=e,n.placeholder="The text of this document";let r=c("div",{class:"paper"},s,De("document",()=>r.remove()),n);return this.documents.append(r),r}nextName(){let t=[...this.documents.querySelectorAll("input")].map(s=>s.value.trim()),e=t.length+1;for(;t.includes(`document ${e}`);)e++;return`document ${e}`}};function We(i,t){return c("button",{type:"button",onclick:t},i)}function De(i,t){return c("button",{type:"button",class:"plain","aria-label":`Remove this ${i}`,onclick:t},"×")}var Us=["value_zeroing","attention","alti"],Et=class{constructor(t){this.text=c("textarea",{rows:"2","aria-label":"Text",spellcheck:"false"});this.second=c("textarea",{rows:"2","aria-label":"Target text: what the decoder is given",placeholder:"What the decoder is given",spellcheck:"false",hidden:!0});this.heads=c("input",{type:"checkbox"});this.measures=c("div");let e=t.request?[]:t.maps.map(s=>s.measure);this.ticked=e.length?e:Us,this.text.value=t.texts[0]&&!t.request?Vs(t):"",this.element=c("div",{class:"live-part"},this.text,this.second,c("details",{class:"behind"},c("summary",{},"Measures"),this.measures,c("label",{},this.heads," single heads too")))}offer(t,e){this.second.hidden=!e.pairs,this.measures.firstChild&&(this.ticked=rt(this.element));let s=t.measures.filter(({name:n})=>e.measures?.includes(n)??!0);this.measures.replaceChildren(Mt("Measures",s,new Set(this.ticked)))}job(t){return{model:t,text:this.text.value,target_text:this.second.hidden?null:this.second.value,measures:rt(this.element),heads:this.heads.checked}}};function Vs(i){let{shown:t,gaps:e,special:s,labels:n}=i.texts[0];return t.map((r,o)=>s[o]&&!/mask/i.test(n[o])?"":e[o]+r).join("").trim()}var Js={text:"Measure a text",answer:"Explain an answer"},Ks={text:"Measure",answer:"Answer"},le=class{constructor(t,e,s){this.live=t;this.show=s;this.kinds=c("div",{class:"kinds-of-job",role:"group",hidden:!0});this.fields=c("span",{class:"live-fields"});this.run=c("button",{type:"submit",class:"primary"},"Measure");this.bar=c("progress",{max:"1",hidden:!0,"aria-label":"Progress"});this.words=c("p",{class:"quiet",role:"status"});this.model={name:""};this.choices={models:[],measures:[]};this.kind=e.request?"answer":"text",this.parts={text:new Et(e),answer:new Tt(e.request??null)},this.kinds.setAttribute("aria-label","What to ask");let n={type:"button",hidden:!0,onclick:()=>t.cancel()};this.cancel=c("button",n,"Cancel"),this.element=c("form",{class:"live",onsubmit:r=>{r.preventDefault(),this.go()}},this.kinds,this.parts.text.element,this.parts.answer.element,c("div",{class:"live-line"},this.fields,this.run,this.cancel,this.bar,this.words)),this.choose(this.kind),t.choices().then(r=>this.offer(r),r=>this.fail(r))}offer(t){if(this.choices=t,this.take(t.models[0]??{name:""}),t.models.length<2)return;let e=t.models.map(({name:s})=>[s,s]);this.fields.append(z("Model",e,this.model.name,s=>this.take(t.models.find(({name:n})=>n===s))))}take(t){this.model=t;for(let s of Object.values(this.parts))s.offer(this.choices,t);let e=!!t.methods?.length;this.kinds.hidden=!e,this.choose(e?this.kind:"text")}choose(t){this.kind=t;for(let e of["text","answer"])this.parts[e].element.hidden=e!==t;this.run.textContent=Ks[t],this.kinds.replaceChildren(...["answer","text"].map(e=>c("button",{type:"button","aria-pressed":String(e===t),onclick:()=>this.choose(e)},Js[e])))}async go(){this.run.disabled=!0,this.bar.hidden=this.cancel.hidden=!1,this.bar.removeAttribute("value"),this.words.textContent="",this.words.classList.remove("wrong");try{let t=this.parts[this.kind].job(this.model.name);this.show(await this.live.run(t,(e,s)=>{this.bar.value=e,this.words.textContent=s})),this.words.textContent=""}catch(t){this.fail(t)}finally{this.run.disabled=!1,this.bar.hidden=this.cancel.hidden=!0}}fail(t){this.words.textContent=t.message,this.words.classList.add("wrong")}};function Ie(i,t,e){return new le(i,t,e).element}var _e='system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif',Ge=(i,t=400)=>`${t} ${i}px ${_e}`,Q=class{constructor(t){this.pen=t;this.rect=(t,e,s,n,r,o,a=1,l=0)=>{let{pen:h}=this;h.beginPath(),l?h.roundRect(t,e,s,n,l):h.rect(t,e,s,n),r&&(h.fillStyle=r,h.fill()),o&&(h.strokeStyle=o,h.lineWidth=a,h.stroke())};this.text=(t,e,s,n)=>{let{pen:r}=this;r.save(),r.font=Ge(n.size,n.weight),r.fillStyle=n.fill,r.textAlign=n.align??"left",r.direction=n.rtl?"rtl":"ltr",r.translate(t,e),n.rotate&&r.rotate(n.rotate*Math.PI/180),r.fillText(s,0,0),r.restore()};this.curve=(t,e,s,n,r,o,a)=>{let{pen:l}=this,h=(e+n)/2;l.save(),l.globalAlpha=a,l.strokeStyle=o,l.lineWidth=r,l.lineCap="round",l.beginPath(),l.moveTo(t,e),l.bezierCurveTo(t,h,s,h,s,n),l.stroke(),l.restore()};this.circle=(t,e,s,n,r)=>{let{pen:o}=this;o.beginPath(),o.arc(t,e,s,0,2*Math.PI),o.fillStyle=n,o.fill(),r&&(o.strokeStyle=r,o.lineWidth=2,o.stroke())};this.image=(t,e,s,n,r,o=!1)=>{this.pen.imageSmoothingEnabled=o,this.pen.drawImage(t,e,s,n,r)}}width(t,e,s){return Be(t,e,s)}},he=null;function Be(i,t,e){return he??=document.createElement("canvas").getContext("2d"),he.font=Ge(t,e),he.measureText(i).width}var ot=i=>Math.round(i*100)/100,dt=class{constructor(){this.parts=[];this.rect=(t,e,s,n,r,o,a=1,l=0)=>{this.put("rect",{x:t,y:e,width:s,height:n,rx:l||void 0,fill:r??"none",stroke:o,"stroke-width":o&&a})};this.text=(t,e,s,n)=>{let r={left:"start",center:"middle",right:"end"}[n.align??"left"];this.put("text",{x:n.rotate?0:t,y:n.rotate?0:e,transform:n.rotate?`translate(${ot(t)} ${ot(e)}) rotate(${n.rotate})`:void 0,"font-size":n.size,"font-weight":n.weight,fill:n.fill,direction:n.rtl?"rtl":void 0,"text-anchor":r==="start"?void 0:r},ce(s))};this.curve=(t,e,s,n,r,o,a)=>{let[l,h,u,d,p]=[t,e,s,n,(e+n)/2].map(ot);this.put("path",{d:`M${l} ${h}C${l} ${p} ${u} ${p} ${u} ${d}`,fill:"none",stroke:o,"stroke-width":r,"stroke-opacity":a,"stroke-linecap":"round"})};this.circle=(t,e,s,n,r)=>{this.put("circle",{cx:t,cy:e,r:s,fill:n,stroke:r,"stroke-width":r&&2})};this.image=(t,e,s,n,r)=>{let o=t instanceof HTMLCanvasElement?t.toDataURL("image/png"):t.src;this.put("image",{x:e,y:s,width:n,height:r,href:o,preserveAspectRatio:"none",style:"image-rendering:pixelated"})}}put(t,e,s=""){let n=Object.entries(e).filter(([,r])=>r!==void 0).map(([r,o])=>`${r}="${ce(String(typeof o=="number"?ot(o):o))}"`).join(" ");this.parts.push(`<${t} ${n}${s?`>${s}</${t}>`:"/>"}`)}width(t,e,s){return Be(t,e,s)}file(t,e,s){let[n,r]=[ot(t),ot(e)],a=`<svg xmlns="http://www.w3.org/2000/svg" ${`width="${n}" height="${r}" viewBox="0 0 ${n} ${r}"`} font-family="${ce(_e)}">`,l=`<rect width="100%" height="100%" fill="${s}"/>`;return`${a}${l}${this.parts.join("")}</svg>
`}};function ce(i){return i.replace(/[&<>"]/g,t=>({"&":"&amp;","<":"&lt;",">":"&gt;",'"':"&quot;"})[t])}function A(i,t,e,s){if(i.width(t,e)<=s)return t;let n=[...t];for(;n.length>1&&i.width(`${n.join("")}…`,e)>s;)n.pop();return`${n.join("")}…`}function L(i,t,e){let s=Math.max(1,window.devicePixelRatio||1);i.width=Math.max(1,Math.round(t*s)),i.height=Math.max(1,Math.round(e*s)),i.style.width=`${t}px`,i.style.height=`${e}px`;let n=i.getContext("2d");return n.setTransform(s,0,0,s,0,0),n.clearRect(0,0,t,e),new Q(n)}var $t=1e3,pt=28;function Ys(i){let{current:t,state:e}=i,{provenance:s}=t.entry,n=s.name??s.model??"",r=e.head===null?"":`, head ${e.head}`;return[`${i.name(t)}, ${t.depthName(e.depth).toLowerCase()}${r}`,n,`mixlens ${i.payload.mixlens}`].filter(Boolean).join(" · ")}var ue=class{constructor(t,e){this.inner=t;this.by=e;this.rect=(t,e,...s)=>this.inner.rect(t+this.by,e+this.by,...s);this.text=(t,e,...s)=>this.inner.text(t+this.by,e+this.by,...s);this.circle=(t,e,...s)=>this.inner.circle(t+this.by,e+this.by,...s);this.curve=(t,e,s,n,...r)=>this.inner.curve(t+this.by,e+this.by,s+this.by,n+this.by,...r);this.image=(t,e,s,...n)=>this.inner.image(t,e+this.by,s+this.by,...n);this.width=(...t)=>this.inner.width(...t)}};function de(i,t,e){let s=$t-2*pt,n=i.paint(new ue(e,pt),t,s);return e.text(pt,pt+n+22,Ys(t),{size:12,fill:t.palette.quiet}),n+2*pt+22}function Ue(i,t){let e=new dt,s=de(i,t,e);return e.file($t,s,t.palette.paper)}function Ve(i,t,e=2){let s=de(i,t,new dt),n=document.createElement("canvas");n.width=$t*e,n.height=Math.round(s*e);let r=n.getContext("2d");return r.scale(e,e),r.fillStyle=t.palette.paper,r.fillRect(0,0,$t,s),de(i,t,new Q(r)),new Promise((o,a)=>n.toBlob(l=>l?o(l):a(new Error("The picture is too large for this browser.")),"image/png"))}function Je(i){let t=e=>{let s=/^[=@+\t\r]/.test(e)||/^-(?![\d.])/.test(e)?`'${e}`:e;return/[",\n\r]/.test(s)?`"${s.replaceAll('"','""')}"`:s};return`${i.map(e=>e.map(t).join(",")).join(`\r
`)}\r
`}function Ke(i,t){let[e,...s]=i.rows(t),{current:n,state:r}=t,o=n.depthName(r.depth),{provenance:a}=n.entry;return`${JSON.stringify({state:r,depth:o,provenance:a,columns:e,rows:s},null,2)}
`}function mt(i,t,e){let s=typeof t=="string"?new Blob([t],{type:e}):t,n=document.createElement("a");n.href=URL.createObjectURL(s),n.download=i,n.click(),setTimeout(()=>URL.revokeObjectURL(n.href),1e4)}function Ye(i,t,e){let s=c("summary",{},"Save"),n=c("details",{class:"menu"},s),r=(h,u)=>c("button",{type:"button",onclick:async()=>{n.open=!1;try{await u()}catch(p){s.textContent="Not possible here",s.title=p.message,t.actions.announce(p.message)}}},h),o=h=>`mixlens-${t.state.view}.${h}`,a=()=>Ve(i(),t),l=[r("Picture (PNG)",async()=>mt(o("png"),await a(),"image/png")),r("Drawing (SVG)",()=>mt(o("svg"),Ue(i(),t),"image/svg+xml")),r("Numbers (CSV)",()=>mt(o("csv"),Je(i().rows(t)),"text/csv")),r("Numbers (JSON)",()=>mt(o("json"),Ke(i(),t),"application/json")),r("Copy the picture",()=>navigator.clipboard.write([new ClipboardItem({"image/png":a()})]))];return e&&l.push(r("Copy a link to this view",()=>navigator.clipboard.writeText(location.href))),n.append(c("div",{},...l)),n.addEventListener("keydown",h=>{h.key==="Escape"&&(n.open=!1)}),n}function Xe(i){if(i?.format!=="mixlens")throw new Error("This is not a mixlens payload.");if(i.version!==1)throw new Error(`This viewer shows payloads of version 1, not ${i.version}.`);return i}var pe=["answer","text","map","heads","flow","compare"],Xs=["none","special","first","both","others"];function me(i,t){let e=new URLSearchParams,s=(n,r,o)=>{JSON.stringify(r)!==JSON.stringify(o)&&e.set(n,String(r??""))};return s("view",i.view,t.view),s("measure",i.map,t.map),s("with",i.other,t.other),s("target",i.target,t.target),s("layer",i.depth,t.depth),s("rows",i.rows,t.rows),s("head",i.head,t.head),s("unit",i.unit,t.unit),s("from",i.threshold,t.threshold),s("open",i.open,t.open),s("node",i.node,t.node),s("hide",i.hide,t.hide),s("method",i.method,t.method),s("part",i.part,t.part),s("follow",i.follow,t.follow),s("theme",i.theme,t.theme),e.toString()}function fe(i,t){let e=new URLSearchParams(i.replace(/^#/,"")),s=(h,u)=>{let d=e.get(h),p=Number(d);return d!==null&&d!==""&&Number.isFinite(p)?p:u},n=(h,u)=>e.get(h)===""?null:e.has(h)?s(h,-1):u,r=(h,u,d)=>u.find(p=>p===e.get(h))??d,o=h=>(e.get(h)??"").split(",").filter(Boolean).map(Number),a=e.get("layer"),l=o("node");return{view:r("view",pe,t.view),map:s("measure",t.map),other:n("with",t.other),target:s("target",t.target),depth:a?xt(a):t.depth,rows:r("rows",["each","upto"],t.rows),head:n("head",t.head),unit:r("unit",["tokens","words","segments"],t.unit),threshold:s("from",t.threshold),open:e.has("open")?o("open"):t.open,node:l.length===2?[l[0],l[1]]:null,hide:r("hide",Xs,t.hide),method:s("method",t.method),part:e.get("part")??t.part,follow:r("follow",["words","sentences"],t.follow),theme:r("theme",["auto","light","dark"],t.theme)}}var At=class{constructor(t){this.handlers=t;this.words=[];this.sentenceOf=[];this.follow="words";this.key="";this.element=c("div",{class:"answer-text",role:"listbox","aria-label":"Answer",dir:"auto",onclick:e=>this.at(e,s=>this.handlers.choose(s)),onmousemove:e=>this.over(e),onmouseleave:()=>this.handlers.point(null),onfocusin:e=>this.at(e,s=>this.handlers.point(s)),onfocusout:()=>this.handlers.point(null),onkeydown:e=>this.typed(e)})}partOf(t){let e=t.target.closest("[data-word], [data-cites]");if(!e)return null;if(e.dataset.cites!==void 0)return`s${Number(e.dataset.cites)}`;let s=Number(e.dataset.word),n=this.sentenceOf[s];return this.follow==="sentences"&&n>=0?`s${n}`:`w${s}`}at(t,e){let s=this.partOf(t);s&&e(s)}over(t){let e=this.partOf(t);e&&this.handlers.point(e)}typed(t){let e=this.words.indexOf(t.target);if(e<0)return;let s={ArrowRight:1,ArrowLeft:-1,ArrowDown:1,ArrowUp:-1}[t.key];if(t.key==="Enter"||t.key===" ")this.at(t,this.handlers.choose);else if(t.key==="Escape")this.handlers.choose("");else if(t.key==="Home")this.focus(0);else if(t.key==="End")this.focus(this.words.length-1);else if(s)t.key==="ArrowUp"||t.key==="ArrowDown"?this.focusSentence(e,s):this.focus(e+s);else return;t.preventDefault()}focusSentence(t,e){let s=this.sentenceOf[t]+e,n=this.sentenceOf.indexOf(s);n>=0&&this.focus(n)}focus(t){let e=Math.max(0,Math.min(this.words.length-1,t));for(let s of this.words)s.tabIndex=-1;this.words[e].tabIndex=0,this.words[e].focus()}update(t){let{about:e}=t.answer;this.follow=t.state.follow;let{name:s}=e.methods[t.state.method],n=`${s} ${e.pieces.length}`;if(n===this.key)return;this.key=n;let r=this.words.findIndex(d=>d.tabIndex===0),o=new Map;this.words=[],this.sentenceOf=[];let a=e.sentences.map((d,p)=>{let m=-1;for(let[,f,g]of e.pieces)g===p&&(m=f);return m}),l=[],h=e.pieces.reduce((d,[p])=>d+p.length,0);this.element.classList.toggle("long",h>700);for(let[d,p,m]of e.pieces){if(p<0){l.push(document.createTextNode(l.length?d:d.trimStart()));continue}let f=c("span",{class:"token",role:"option","data-word":p,tabindex:"-1"},_(d));this.words.push(f),this.sentenceOf.push(m),l.push(f),m>=0&&a[m]===p&&l.push(document.createTextNode("⁠"),this.cited(m,e.citations[s]?.[m]??[],o))}this.element.replaceChildren(...l);let u=this.words[Math.max(0,r)];u&&(u.tabIndex=0)}cited(t,e,s){let n=e.map(r=>(s.has(r)||s.set(r,s.size+1),`[${s.get(r)}]`));return c("span",{class:"cites","data-cites":t,"aria-hidden":"true",title:"What this sentence rests on"},n.join(""))}mark(t,e){this.words.forEach((s,n)=>{let r=t===`w${n}`||t===`s${this.sentenceOf[n]}`,o=e===`w${n}`||e===`s${this.sentenceOf[n]}`;s.classList.toggle("target",r),s.classList.toggle("of-sentence",r&&t.startsWith("s")),s.classList.toggle("pointed",r&&!o),s.setAttribute("aria-selected",String(o))})}};var Ze=420,Ct=class{constructor(){this.picture=new Image;this.grey=null;this.context=null;this.values=[];this.scale=0;this.at=null;this.canvas=N({over:t=>this.pointAt(this.patch(t),t),leave:()=>this.pointAt(null,null),choose:()=>this.choose(),step:(t,e)=>this.walk(t,e)}),this.canvas.setAttribute("aria-label","The picture, its patches shaded by their share; the ranked list has the numbers. Arrow keys move, Enter chooses a patch."),this.element=c("figure",{class:"picture"},this.canvas),this.picture.addEventListener("load",()=>{this.grey=ge(this.picture),this.draw()})}show(t,e,s){let{image:n}=t.payload;n&&(Object.assign(this,{context:t,values:e,scale:s}),this.picture.src!==n.src&&(this.picture.src=n.src),this.draw())}size(t){let e=(this.picture.naturalHeight||1)/(this.picture.naturalWidth||1),s=Math.min(t,Ze,Ze/e);return[s,s*e]}draw(){if(!this.context||!this.picture.naturalWidth)return;let[t,e]=this.size(this.element.clientWidth||420);this.painted(L(this.canvas,t,e),this.context,0,0,t,e)}painted(t,e,s,n,r,o){let{rows:a,columns:l,first:h}=e.payload.image,{sources:u,own:d}=e;t.image(this.grey??this.picture,s,n,r,o,!0);let[p,m]=[r/l,o/a];for(let f=0;f<a*l;f++){let g=u.of[h+f];if(g===void 0)break;let b=this.scale>0?this.values[g]/this.scale:0,[w,C]=[s+f%l*p,n+Math.floor(f/l)*m],O=Math.min(.85,Math.abs(b)*.85),M=k(x(Y,b<0?-.75:.75)).replace(")",`, ${O})`);t.rect(w,C,p,m,M),g===d?t.rect(w+1,C+1,p-2,m-2,null,"#ffffff",3):h+f===this.at&&t.rect(w,C,p,m,null,"#ffffff",1.5)}}patch(t){let{context:e}=this;if(!e)return null;let{rows:s,columns:n,first:r}=e.payload.image,o=Math.floor(t.offsetX/this.canvas.clientWidth*n),a=Math.floor(t.offsetY/this.canvas.clientHeight*s);return r+a*n+o}pointAt(t,e){this.at=t,this.context?.actions.tip(e,this.words()),this.draw()}words(){let{context:t,at:e}=this;if(!t||e===null)return[];let{columns:s,first:n}=t.payload.image,r=t.sources.of[e]??0;return[`Patch in ${`row ${Math.floor((e-n)/s)}, column ${(e-n)%s}`}`,`${v(this.values[r]??0)} of the target`]}choose(){let{context:t,at:e}=this;t&&e!==null&&t.current.square&&t.current.holds(e)&&t.actions.set({target:e,node:null})}walk(t,e){let{context:s}=this;if(!s)return;let{rows:n,columns:r,first:o}=s.payload.image,a=this.at===null?0:this.at-o,l=P(a%r+(this.at===null?0:t),r),h=P(Math.floor(a/r)+(this.at===null?0:e),n);this.pointAt(o+h*r+l,null),s.actions.announce(this.words().join(", "))}paint(t,e,s,n,r,o,a){Object.assign(this,{values:o,scale:a});let[l,h]=this.size(r);return this.painted(t,e,s,n,l,h),h}};function ge(i){let t=document.createElement("canvas");t.width=i.naturalWidth,t.height=i.naturalHeight;let e=t.getContext("2d");e.drawImage(i,0,0);let s=e.getImageData(0,0,t.width,t.height);for(let n=0;n<s.data.length;n+=4){let[r,o,a]=s.data.subarray(n,n+3);s.data.fill(.3*r+.59*o+.11*a,n,n+3)}return e.putImageData(s,0,0),t}var be=360;function Zs({grids:i}){return i.flatMap(t=>{let[e,s,n,r]=t.box,[o,a]=[(n-e)/t.columns,(r-s)/t.rows];return Array.from({length:t.rows*t.columns},(l,h)=>{let[u,d]=[Math.floor(h/t.columns),h%t.columns],[p,m]=[e+d*o,s+u*a],f=[p,m,p+o,m+a];return{token:t.first+u*t.stride+d,row:u,column:d,grid:t,box:f}})})}var Qe=(i,[t,e,s,n])=>i/Math.max(1e-9,(s-t)*(n-e));function St(i,t){let e=0;for(let{patches:s}of i)for(let{token:n,box:r}of s)e=Math.max(e,Math.abs(Qe(t(n),r)));return e}var it=class{constructor(t){this.picture=t;this.caption=c("figcaption",{});this.image=new Image;this.grey=null;this.context=null;this.value=()=>0;this.scale=0;this.at=-1;this.patches=Zs(t),this.canvas=N({over:e=>this.point(this.hit(e),e),leave:()=>this.point(-1,null),choose:()=>{},step:(e,s)=>this.walk(e,s)}),this.element=c("figure",{class:"heat"},this.canvas,this.caption),this.image.addEventListener("load",()=>{this.grey=ge(this.image),this.draw()}),this.image.src=t.src}show(t,e,s){Object.assign(this,{context:t,value:e,scale:s});let n=this.total;this.caption.textContent=`${this.picture.name} · ${v(n)} of all sources`,this.canvas.setAttribute("aria-label",`${this.picture.name}, ${v(n)} of all sources, its patches shaded by their share. Arrow keys move from patch to patch.`),this.draw()}get total(){let t=new Set(this.patches.map(({token:s})=>s)),e=0;for(let s of t)e+=this.value(s);return e}size(t){let e=(this.image.naturalHeight||1)/(this.image.naturalWidth||1),s=Math.min(t,be,be/e);return[s,s*e]}draw(){if(!this.context||!this.image.naturalWidth)return;let[t,e]=this.size(this.element.parentElement?.clientWidth||be);this.painted(L(this.canvas,t,e),0,0,t,e)}painted(t,e,s,n,r){t.image(this.grey??this.image,e,s,n,r,!0),this.patches.forEach(({token:o,box:a},l)=>{let h=this.scale>0?Qe(this.value(o),a)/this.scale:0,u=Math.min(.85,Math.abs(h)*.85),d=k(x(Y,h<0?-.75:.75)).replace(")",`, ${u})`),[p,m]=[Math.max(0,a[0]),Math.max(0,a[1])],[f,g]=[Math.min(1,a[2]),Math.min(1,a[3])];if(f<=p||g<=m)return;let b=[e+p*n,s+m*r],w=[(f-p)*n,(g-m)*r];t.rect(...b,...w,d),l===this.at&&t.rect(...b,...w,null,"#ffffff",1.5)})}hit(t){let e=t.offsetX/this.canvas.clientWidth,s=t.offsetY/this.canvas.clientHeight,n=-1,r=Number.POSITIVE_INFINITY;return this.patches.forEach(({box:[o,a,l,h]},u)=>{let d=(l-o)*(h-a);e>=o&&e<l&&s>=a&&s<h&&d<r&&([n,r]=[u,d])}),n}words(){let t=this.patches[this.at];if(!t)return[];let e=this.picture.grids.length,s=e>1?`, grid ${this.picture.grids.indexOf(t.grid)+1} of ${e}`:"";return[`${this.picture.name} patch (${t.row}, ${t.column})${s}`,`${v(this.value(t.token))} of all sources`]}point(t,e){this.at=t,this.context?.actions.tip(t<0?null:e,this.words()),this.draw()}walk(t,e){let s=this.patches[this.at],n=s?.grid??this.picture.grids[0],r=Math.max(0,Math.min(n.rows-1,(s?.row??0)+(s?e:0))),o=Math.max(0,Math.min(n.columns-1,(s?.column??0)+(s?t:0))),a=this.patches.findIndex(l=>l.grid===n&&l.row===r&&l.column===o);this.point(a,null),this.context?.actions.announce(this.words().join(", "))}paint(t,e,s,n){let[r,o]=this.size(n);return this.painted(t,e,s,r,o),o}};var Qs=.12,Lt=class{constructor(t,e){this.scroller=t;this.show=e;this.element=c("div",{class:"minimap","aria-hidden":"true"});this.window=c("div",{class:"minimap-window"});this.marks=c("div",{class:"minimap-marks"});this.passages=[];this.frame=0;this.last=null;this.starts=[];this.length=1;this.element.addEventListener("click",s=>this.jump(s)),t.addEventListener("scroll",()=>this.follow(),{passive:!0}),new ResizeObserver(()=>this.follow()).observe(t)}build(t,e){this.passages=e,this.starts=[];let s=0,n=[];for(let{document:o,pieces:a}of t.about.blocks)if(!(o<0)){n.push(s);for(let[l,h]of a)h>=0&&(this.starts[h]=s),s+=l.length;s+=60}this.length=Math.max(1,s);let r=n.slice(1).map(o=>Z(c("span",{class:"edge"}),{top:`${100*o/this.length}%`}));this.element.replaceChildren(...n.length<=60?r:[],this.marks,this.window),this.follow()}mark(t,e){if(t&&e&&(this.last=[t,e]),!this.last)return;let[s,n]=this.last;this.marks.replaceChildren(...s.filter(([,r])=>r>=Qs).map(([r,o])=>Z(c("span"),{top:`${100*this.starts[r]/this.length}%`,background:k(x(n,.3+.7*o))}))),this.follow()}follow(){cancelAnimationFrame(this.frame),this.frame=requestAnimationFrame(()=>{let{scrollTop:t,scrollHeight:e,clientHeight:s}=this.scroller,n=Math.max(1,e);this.element.hidden=e<=s+4,this.window.style.top=`${100*t/n}%`,this.window.style.height=`${100*s/n}%`})}jump(t){let e=this.element.getBoundingClientRect(),s=(t.clientY-e.top)/e.height*this.length,n=0;this.starts.forEach((r,o)=>{Math.abs(r-s)<Math.abs(this.starts[n]-s)&&(n=o)}),this.passages[n]&&this.show(n)}};var ts=6,tn=240,en=60,sn=.15,nn=["#2a74bd","#8a6bbf","#b5528c","#c9793b","#8d9196","#4f9d86","#59626d"],Pt=class{constructor(){this.head=c("h1",{class:"answer"});this.facts=c("div",{class:"facts"});this.bar=c("div",{class:"kinds",role:"img"});this.legend=c("p",{class:"legend kinds-legend"});this.listName=c("h2",{});this.list=c("ol",{class:"cited"});this.methodsName=c("h2",{},"What the methods say");this.methods=c("table",{class:"methods"});this.scroller=c("div",{class:"documents",tabindex:"0",role:"region","aria-label":"Documents"});this.others=c("input",{type:"checkbox"});this.passages=[];this.badges=[];this.pictures=[];this.lit=[];this.wordSpans=new Map;this.built=null;this.hovered=null;this.frame=0;this.drawn="";this.kept="";this.text=new At({point:t=>this.point(t),choose:t=>this.context.actions.set({part:t===this.context.state.part?"":t})}),this.map=new Lt(this.scroller,t=>this.show(t,!1)),this.others.addEventListener("change",()=>{this.scroller.classList.toggle("all",this.others.checked),this.map.mark()}),this.element=c("div",{class:"answer-view"},this.head,this.facts,c("div",{class:"answer-columns"},c("div",{class:"answer-side"},c("h2",{},"Answer"),this.text.element,this.bar,this.legend),c("div",{class:"details-side"},this.listName,this.list,this.methodsName,this.methods),c("div",{class:"documents-side"},c("div",{class:"documents-head"},c("h2",{},"Documents"),c("label",{},this.others," question and template too")),c("div",{class:"documents-frame"},this.scroller,this.map.element))))}get scores(){return this.context.answer}get part(){return this.hovered??this.context.state.part}get scored(){return this.scores.of(this.context.state.method,this.part)}point(t){t!==this.hovered&&(this.hovered=t,cancelAnimationFrame(this.frame),this.frame=requestAnimationFrame(()=>this.light()))}update(t){this.context=t,this.built!==t.answer&&this.build(),this.drawn="",this.text.update(t),this.light();let e=t.state.part!==this.kept;if(this.kept=t.state.part,this.kept&&e){let{passages:s,documents:n}=this.scored,r=s?R(s,1)[0]:this.firstOf(R(n,1)[0]);r!==void 0&&this.show(r,!1)}}firstOf(t){if(t!==void 0)return this.scores.passages.findIndex(e=>e.document===t)}build(){let{about:t}=this.built=this.scores;this.passages=[],this.badges=[],this.pictures=[],this.lit=[],this.wordSpans.clear(),this.scroller.replaceChildren(...t.blocks.map(e=>this.block(e))),this.map.build(this.scores,this.passages),this.others.closest("label").hidden=t.blocks.every(e=>e.document>=0)}block({name:t,kind:e,document:s,pieces:n}){let r=c("span",{class:"badge"});s>=0&&(this.badges[s]=r);let o=this.imageOf(t,s);if(o){let h=new it(o);this.pictures.push(h);for(let[,d]of n)d>=0&&(this.passages[d]=h.element);let u=c("h3",{dir:"auto"},t,r);return c("section",{class:"document"},u,h.element)}let a=n.map(([h,u])=>u<0?c("span",{},h):this.passages[u]=c("span",{class:"passage"},h)),l=s>=0||e==="template"||e===t?t:`${t} · ${e}`;return c("section",{class:s>=0?"document":"document other"},c("h3",{dir:"auto"},l,r),c("p",{dir:"auto"},...a))}imageOf(t,e){if(!(e<0))return this.context.payload.images?.find(s=>s.name===t)}isPicture(t){let{document:e}=this.scores.passages[t];return this.imageOf(this.scores.documents[e],e)!==void 0}textOf(t){return this.isPicture(t)?"the image":this.scores.passages[t].text}heat(){let{patches:t}=this.scored,e=new Map(this.scores.about.patches?.map((r,o)=>[r,o])),s=r=>t?.[e.get(r)??-1]??0,n=St(this.pictures,s);for(let r of this.pictures)r.show(this.context,s,n)}words(t){let e=this.wordSpans.get(t);if(e)return e;e=[];let{text:s}=this.scores.passages[t],n=[],r=0;for(let o of s.matchAll(oe)){let a=c("span",{class:"word"},o[0]);n.push(s.slice(r,o.index),a),e.push(a),r=o.index+o[0].length}return n.push(s.slice(r)),this.passages[t].replaceChildren(...n),this.wordSpans.set(t,e),e}show(t,e=!0){let s=this.passages[t],{scroller:n}=this,r=()=>{let o=s.getBoundingClientRect(),a=n.getBoundingClientRect();n.scrollTop+=o.top-a.top-a.height/3};r(),requestAnimationFrame(r),e&&(s.classList.remove("found"),s.offsetWidth,s.classList.add("found"))}light(){let{state:t,palette:e}=this.context,s=`${t.method} ${this.part} ${e.paper}`;if(s===this.drawn)return;this.drawn=s;let{documents:n,passages:r,words:o}=this.scored,a=ut(n);for(let u of this.lit)u.style.background="",u.style.color="";this.lit=[];let l=r??this.spread(n),h=[];this.shadeBest(l,tn,.5,(u,d)=>(h.push([u,d]),this.isPicture(u)?void 0:this.passages[u])),this.heat(),o&&this.shadeBest(o,en,1,u=>{let d=this.scores.passageOf(u);if(!this.isPicture(d))return this.words(d)[u-this.scores.firstWord[d]]}),this.badges.forEach((u,d)=>{u.textContent=a[d]>=.005?v(a[d]):"",u.style.setProperty("--share",String(a[d]))}),this.map.mark(h,e),this.text.mark(this.part,t.part),this.sentence(a),this.fillKinds(),this.fillList(a),this.fillMethods()}spread(t){return Float64Array.from(this.scores.passages,e=>t[e.document])}shadeBest(t,e,s,n){let r=R(t,e),o=r.length?t[r[0]]:0;for(let a of r){let l=t[a]/o;if(l<sn)break;let h=n(a,l);if(!h)continue;let u=x(this.context.palette,l*s);h.style.background=k(u),h.style.color=X(u),this.lit.push(h)}}sentence(t){let{scores:e,part:s}=this,n=R(t,1)[0],o=(s[0]==="w"?c("b",{},T(e.text(s))):null)??(s?"This sentence":"This answer");n===void 0?this.head.replaceChildren(o," rests on no document."):e.documents.length===1?this.head.replaceChildren(...this.onPassage(o)):this.head.replaceChildren(o," rests most on ",c("b",{},T(e.documents[n])),` (${v(t[n])} of the documents)`);let{about:a}=e,h=a.methods.map((p,m)=>R(e.of(m,s).documents,1)[0]).filter(p=>p===n).length,u=a.methods[this.context.state.method],d=[`By ${u.name}, ${u.reading}.`];a.methods.length>1&&n!==void 0&&e.documents.length>1&&(d[0]+=` ${h} of ${a.methods.length} methods put this document first.`),this.facts.replaceChildren(c("p",{},d.join(" ")))}onPassage(t){let{passages:e}=this.scored,s=e?R(e,1)[0]:void 0;return s===void 0?[t," rests on this document"]:this.isPicture(s)?[t," rests on ",c("b",{},this.scores.documents[0]),"."]:[t," rests most on ",c("b",{},`“${T(this.scores.passages[s].text)}”`)]}fillKinds(){let{kinds:t}=this.scored;if(this.bar.hidden=this.legend.hidden=!t,!t)return;let e=this.scores.about.kinds.map(o=>o==="document"?"documents":o),s=0;for(let o of t)s+=o;let n=e.map((o,a)=>[o,t[a]/(s||1),nn[a]]).filter(([,o])=>o>0),r=n.map(([o,a])=>`${o} ${v(a)}`).join(", ");this.bar.setAttribute("aria-label",`Shares of all sources: ${r}`),this.bar.replaceChildren(...n.map(([,o,a])=>Z(c("span"),{"flex-grow":String(o),background:a}))),this.legend.replaceChildren(...n.map(([o,a,l])=>c("span",{},Z(c("i"),{background:l}),`${o} `,c("span",{class:"quiet"},v(a)))))}ranked(t){let{passages:e,documents:s}=this.scored;if(!e)return R(s,ts).map(r=>({passage:this.firstOf(r),share:t[r],isCut:this.scores.passages.filter(({document:o})=>o===r).length>1}));let n=ut(e);return R(e,ts).map(r=>({passage:r,share:n[r],isCut:!1}))}fillList(t){let e=this.ranked(t),s=this.part[0]==="w"?`“${T(this.scores.text(this.part))}”`:"";this.listName.textContent=s?`Passages behind ${s}`:"Passages";let n=e[0]?.share??1;this.list.replaceChildren(...e.map(({passage:r,share:o,isCut:a})=>{let{document:l}=this.scores.passages[r],h=this.textOf(r),u=k(x(this.context.palette,.35+.6*o/n));return c("li",{},c("button",{type:"button",class:"passage-link",onclick:()=>this.show(r)},c("span",{class:"passage-head"},c("b",{},T(this.scores.documents[l])),c("span",{class:"quiet"},v(o))),c("span",{class:"passage-text",dir:"auto"},a?`${h} …`:h)),Z(c("span",{class:"bar"}),{width:`${100*o/n}%`,background:u}))}))}fillMethods(){let{scores:t,part:e}=this,{methods:s}=t.about;if(this.methods.hidden=this.methodsName.hidden=s.length<2||t.documents.length<2,this.methods.hidden)return;let n=s.map(({name:r},o)=>{let{documents:a}=t.of(o,e),l=R(a,1)[0],h=o===this.context.state.method,u=()=>this.context.actions.set({method:o});return c("tr",{class:h?"chosen":null},c("th",{scope:"row"},c("button",{type:"button",class:"source","aria-pressed":String(h),onclick:u},r)),c("td",{},l===void 0?"none":T(t.documents[l])),c("td",{},l===void 0?"":v(ut(a)[l])))});this.methods.replaceChildren(c("tbody",{},...n))}paint(t,e,s){this.context=e;let{palette:n}=e;((u,d,p,m,f)=>t.text(0,u,A(t,d,p,s),{size:p,fill:m,weight:f}))(20,this.head.textContent??"",18,n.ink,600);let o=48,a=this.scores.about.pieces.map(([u])=>u).join("");for(let u of rn(t,a.trim(),16,s))t.text(0,o,u,{size:16,fill:n.ink}),o+=24;o+=12;let l=this.ranked(ut(this.scored.documents)),h=l[0]?.share??1;for(let{passage:u,share:d}of l){let{document:p}=this.scores.passages[u],m=this.textOf(u),f=k(x(n,.35+.6*d/h));t.rect(0,o-12,90*(d/h),12,f),t.text(100,o-2,v(d),{size:13,fill:n.quiet});let g=`${this.scores.documents[p]}: ${m.replace(/\s+/g," ")}`;t.text(160,o-2,A(t,g,13,s-160),{size:13,fill:n.ink}),o+=24}for(let u of this.pictures)o+=u.paint(t,0,o,s)+14;return o}rows(t){this.context=t;let{scores:e}=this,s=[["method","part","document","passage","score"]],{name:n}=e.about.methods[t.state.method],r=this.part?e.text(this.part):"answer",{passages:o,documents:a}=this.scored;if(o)for(let l of R(o,o.length)){let{document:h}=e.passages[l],u=this.textOf(l);s.push([n,r,e.documents[h],u,o[l].toPrecision(4)])}else a.forEach((l,h)=>s.push([n,r,e.documents[h],"",l.toPrecision(4)]));return s}};function rn(i,t,e,s){let n=[];for(let r of t.split(`
`)){let o="";for(let a of r.split(/\s+/)){let l=o?`${o} ${a}`:a;o&&i.width(l,e)>s?(n.push(o),o=a):o=l}n.push(o)}return n}function ve(i){let t=Array.from({length:i.length},(s,n)=>n).sort((s,n)=>Math.abs(i[n])-Math.abs(i[s])),e=new Float64Array(i.length);for(let s=0;s<t.length;){let n=s;for(;n<t.length&&Math.abs(i[t[n]])===Math.abs(i[t[s]]);)n++;for(let r=s;r<n;r++)e[t[r]]=(s+1+n)/2;s=n}return e}function we(i,t){let e=ve(i),s=ve(t),n=(e.length+1)/2,r=0,o=0,a=0;for(let l=0;l<e.length;l++)r+=(e[l]-n)*(s[l]-n),o+=(e[l]-n)**2,a+=(s[l]-n)**2;return o&&a?r/Math.sqrt(o*a):Number.NaN}function Ot(i,t){return Array.from(i).filter((e,s)=>s!==t)}function at(i,t){let e=Array.from(i[0]??[],(r,o)=>o).filter(r=>r!==t),s=i.map(r=>ve(e.map(o=>r[o])));return e.map((r,o)=>{let a=i.map(d=>Math.abs(d[r])),l=a.indexOf(Math.max(...a)),h=a.indexOf(Math.min(...a)),u=a[l]-a[h];return{group:r,high:l,low:h,highRank:s[l][o],lowRank:s[h][o],weight:u}}).sort((r,o)=>o.weight-r.weight)}var on=6;function zt(i){let{current:t,state:e}=i;return i.measured.filter(s=>s.targets===t.targets&&s.sources===t.sources&&s.holds(e.target)).map(s=>({measured:s,values:i.incoming(s,{depth:i.depthFor(s),head:null})}))}function tt(i,t,e){return we(Ot(t.values,i.own),Ot(e.values,i.own))}function Nt(i,t){let e=t.find(a=>a.measured===i.current),s=t.filter(a=>a!==e);if(!e||!s.length)return null;let n=s.filter(a=>a.measured.entry.layers.length>0),r=(n.length?n:s).filter(a=>a.measured.entry.measure!=="random"),o=a=>{let l=tt(i,e,a);return Number.isNaN(l)?2:l};return(r.length?r:s).reduce((a,l)=>o(l)<o(a)?l:a)}var an=.95;function ss(i,t){let e=t.find(l=>l.measured===i.current)??t[0],s=i.cueGroup,n=new Map(t.map(l=>[l,s===null?-tt(i,e,l)||0:$(l.values,i.own).findIndex(({group:h})=>h===s)])),r=l=>+(l.measured.entry.measure==="random"),o=[...t].sort((l,h)=>r(l)-r(h)||es(n.get(l),s)-es(n.get(h),s)||+(h===e)-+(l===e)),a=[];for(let l of o){let h=a.find(([u])=>!r(l)&&(s===null||n.get(u)===n.get(l))&&tt(i,u,l)>=an);h?h.push(l):a.push([l])}return a}var es=(i,t)=>t!==null&&i<0?Number.MAX_SAFE_INTEGER:i;function xe(i,t){let e=i.name(t[0].measured);return t.length>1?`${e} +${t.length-1}`:e}function Rt(i){return i>.8?"agree":i>.4?"agree in part":"disagree"}function ns(i,t){let{own:e,sources:s}=i,n=t.map(d=>d.values),r=at(n,e).slice(0,on),o=Math.max(...n.map(d=>S(d,e))),a=n.map(d=>$(d,e).map(p=>p.group)),l=t.flatMap(d=>[c("th",{scope:"col",colspan:"2"},i.name(d.measured)),c("th",{scope:"col",class:"place"},"rank")]),h=d=>n.flatMap((p,m)=>[c("td",{class:"bars"},ye(i,p[d],o)),c("td",{class:"number"},v(p[d])),c("td",{class:"place"},ln(a[m].indexOf(d)))]),u=r.filter(d=>d.weight>0).map(({group:d})=>{let p=c("th",{scope:"row",dir:"auto"},s.label(d));return c("tr",{},p,...h(d))});return[c("thead",{},c("tr",{},c("th",{scope:"col"},"token"),...l)),c("tbody",{},...u)]}var ln=i=>i<0?"–":`no. ${i+1}`;function ye(i,t,e,s){let n=c("span",{class:"bar"});return n.style.width=`${Math.min(100,e>0?Math.abs(t)/e*100:0)}%`,n.style.backgroundColor=s??k(x(i.palette,t<0?-.72:.72)),n}function rs(i,t){let e=t.map(([r])=>Ot(r.values,i.own)),s=t.map((r,o)=>c("th",{scope:"col"},Ht(o))),n=t.map((r,o)=>{let a=r.map(u=>i.name(u.measured)).join(", "),l=c("th",{scope:"row",title:a},c("b",{},Ht(o)),` ${xe(i,r)}`),h=e.map((u,d)=>o===d?c("td",{class:"same"},"·"):hn(i,we(e[o],u)));return c("tr",{},l,...h)});return c("table",{},c("thead",{},c("tr",{},c("td"),...s)),c("tbody",{},...n))}function hn(i,t){if(Number.isNaN(t))return c("td",{},"–");let e=t.toFixed(2).replace("-","−"),s=c("td",{title:e},c("span",{},e)),n=x(i.palette,t*.9);return s.style.backgroundColor=k(n),s.style.color=X(n),s}function Ht(i){return i<26?String.fromCharCode(97+i):String(i)}var as=/[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;function os(i){for(let t of i){let e=/\p{L}/u.exec(t.replace(/^[[<].*[\]>]$/,""));if(e)return as.test(e[0])}return!1}function cn(i){return i.split(`
`).flatMap((t,e)=>{let s=e?[c("br")]:[];return t&&s.push(document.createTextNode(t.replace(/\s+/g," "))),s})}function is(i){let t=new Map,e=i.unit==="segments";return i.text.segments?.forEach(([s,n,r],o)=>{e&&i.open.has(o)?t.set(s,c("div",{class:"fold","data-fold":o,"aria-hidden":"true",title:"Close"},`▾ ${_(r??"")} ${n-s} tokens`)):!e&&r!==void 0&&t.set(s,c("div",{class:"segment-name"},_(r)))}),t}var et=class{constructor(t,e,s=!1){this.handlers=e;this.ofTargets=s;this.grouping=null;this.items=[];this.shades=[];this.palette=null;this.marked=-1;this.gone=null;this.inSight=null;this.element=c("div",{class:"reading",role:"listbox","aria-label":t,onclick:n=>this.at(n,r=>this.handlers.choose(r)),onmousemove:n=>this.over(n),onmouseleave:n=>this.handlers.point(null,n),onkeydown:n=>this.key(n),onfocusin:n=>this.at(n,r=>this.handlers.point(r,null)),onfocusout:()=>this.handlers.point(null,null)})}at(t,e){let s=t.target.closest("[data-fold]");s&&t.type==="click"&&this.handlers.close?.(Number(s.dataset.fold));let n=t.target.closest("[data-group]");n&&e(Number(n.dataset.group))}over(t){let e=t.target.closest("[data-group]"),s=e?Number(e.dataset.group):null;this.handlers.point(s,t)}key(t){let e=this.items.indexOf(t.target);if(e<0)return;let s=this.element.matches(":dir(rtl)")?"ArrowLeft":"ArrowRight",n=s==="ArrowRight"?"ArrowLeft":"ArrowRight",r={[s]:e+1,[n]:e-1,ArrowDown:e+1,ArrowUp:e-1,Home:0,End:this.items.length-1};if(t.key==="Enter"||t.key===" ")this.handlers.choose(e);else if(t.key in r){let o=Math.max(0,Math.min(this.items.length-1,r[t.key]));this.focus(o)}else return;t.preventDefault()}focus(t){for(let e of this.items)e.tabIndex===0&&(e.tabIndex=-1);this.items[t].tabIndex=0,this.items[t].focus()}show(t,e){t!==this.grouping&&(this.build(t,e),this.palette=this.gone=null),e.palette!==this.palette&&(this.shades=new Array(t.size).fill(Number.NaN),this.palette=e.palette);let s=e.goneFrom(t.text);s!==this.gone&&(this.gone=s,this.items.forEach((n,r)=>{let{start:o,stop:a}=t.groups[r],l=!0;for(let h=o;h<a;h++)l&&=s.has(h);n.classList.toggle("left-out",l)}))}holds(t,{start:e,stop:s}){if(!this.ofTargets)return!0;for(let n=e;n<s;n++)if(t.current.holds(n))return!0;return!1}get isEmpty(){return!this.element.firstChild}build(t,e){let s=this.items.indexOf(this.element.getRootNode().activeElement);this.grouping=t,this.marked=-1;let{text:n}=t,r=[],o=is(t);this.items=t.groups.map((h,u)=>{let d=e.isPatch(n,h.start)||!this.holds(e,h),p=o.get(h.start);p?r.push(p):!d&&h.segment===null&&r.push(...cn(n.gaps[h.start]));let m=t.special(u)&&!/mask/i.test(n.labels[h.start]),f=c("span",{class:["token",m&&"special",h.segment!==null&&"segment"].filter(Boolean).join(" "),role:"option",dir:"auto",tabindex:"-1","aria-selected":"false","data-group":u}),g=t.label(u);return f.append(g),h.segment!==null&&f.append(c("small",{},`${h.stop-h.start} tokens`),c("small",{})),d||r.push(f),!d&&g.endsWith("↵")&&r.push(c("br")),f}),this.element.replaceChildren(...r),this.element.dir=os(n.shown)?"rtl":"ltr";let a=this.element.querySelectorAll(".token").length;this.element.dataset.size=a<=40?"large":a<=150?"middle":a<=700?"small":"tiny";let l=this.items[Math.max(0,s)]??this.items[0];l&&(l.tabIndex=0),s>=0&&l?.focus()}find(t){let e=this.items[t];if(!e)return;this.reveal(t),e.classList.remove("found"),e.offsetWidth,e.classList.add("found");let s=e.getBoundingClientRect();(s.top<0||s.bottom>window.innerHeight)&&e.scrollIntoView({block:"center"})}shadeBy(t,e,s,n,r){this.items.forEach((a,l)=>{let h=s>0&&l!==n?Math.round(e[l]/s*64)/64:0;if(this.shades[l]===h)return;this.shades[l]=h;let u=x(t.palette,h);a.style.backgroundColor=h===0?"":k(u),a.style.color=h===0?"":X(u),this.grouping.groups[l].segment!==null&&(a.lastElementChild.textContent=v(e[l]))}),r&&n>=0&&this.inSight!==this.items[n]&&this.reveal(n),this.marked>=0&&this.items[this.marked]?.classList.remove("target","pointed"),this.marked=n;let o=this.items[n];if(o?.classList.add("target"),o?.classList.toggle("pointed",!r),r){let a=this.element.getRootNode().activeElement,l=a&&this.element.contains(a);this.items.forEach((h,u)=>{let d=String(u===n);h.getAttribute("aria-selected")!==d&&h.setAttribute("aria-selected",d),!l&&h.tabIndex===0!=(u===Math.max(0,n))&&(h.tabIndex=u===Math.max(0,n)?0:-1)})}}reveal(t){let e=this.items[t];this.inSight=e;let{element:s}=this,n=e.offsetTop-s.offsetTop,r=n<s.scrollTop,o=n+e.offsetHeight>s.scrollTop+s.clientHeight;(r||o)&&(s.scrollTop=n-s.clientHeight/2)}describe(t,e){this.items[t]?.setAttribute("aria-label",e)}paint(t,e,s,n,r,o,a,l){let h=this.grouping,{palette:u}=e,d=h.size<=40?22:h.size<=150?17:13,p=d*1.8,m=h.groups.map((C,O)=>A(t,h.label(O),d,r-12)),f=os(h.text.shown),g=is(h),b=0,w=n+p*.8;return m.forEach((C,O)=>{let{start:M}=h.groups[O];if(e.isPatch(h.text,M)||!this.holds(e,h.groups[O]))return;let q=g.get(M)?.textContent;q&&(w+=b>0?p:0,t.text(s,w,q,{size:12,fill:u.quiet}),[b,w]=[0,w+p]);let G=q?"":h.text.gaps[M],H=t.width(C,d)+8;b>0&&(G.includes(`
`)||b+H>r)?(b=0,w+=p):b>0&&G&&(b+=d*.16);let B=a>0&&O!==l?o[O]/a:0,bt=x(u,B),$e=f?s+r-b-H:s+b,Ts=O===l?u.ink:void 0;t.rect($e,w-d*1.05,H,d*1.45,B?k(bt):null,Ts,2,5);let Es=B?X(bt):h.special(O)&&O!==l?u.quiet:u.ink;t.text($e+H/2,w,C,{size:d,fill:Es,align:"center",rtl:as.test(C)}),b+=H}),w+p*.5-n}};function Ft(i){let t=i.map(([s,n])=>`${E(s)} ${v(n)}`),e=t.pop()??"nothing";return t.length?`${t.join(", ")} and ${e}`:e}var ls=190,lt=22,jt=class{constructor(){this.headline=c("h1",{class:"answer"});this.choices=c("div",{class:"pair-choices"});this.names=[c("h2",{}),c("h2",{})];this.tops=[c("p",{class:"quiet"}),c("p",{class:"quiet"})];this.disputed=c("table",{class:"disputes"});this.matrix=c("div",{class:"wide matrix",tabindex:"0",role:"region","aria-label":"Agreement of measures"});this.leftOut=c("details",{class:"behind"});this.rowsShown=[];this.groups=[];this.order=c("p",{class:"quiet hint"});this.members=c("p",{class:"quiet members"});this.cell=10;this.left=ls;let t=()=>new et("The text: choose a target",{choose:s=>this.choose(s),close:s=>this.close(s),point:(s,n)=>this.point(s,n)});this.readings=[t(),t()],this.canvas=c("canvas",{role:"img",tabindex:"0",onmousemove:s=>this.over(s),onmouseleave:()=>this.context.actions.tip(null,[]),onclick:s=>this.pick(Math.floor(s.offsetY/lt))}),this.table=D("Measures",()=>this.rows());let e=s=>c("section",{class:"pair-side"},this.names[s],this.readings[s].element,this.tops[s]);this.element=c("div",{class:"compare-view"},this.headline,this.choices,c("div",{class:"pair"},e(0),e(1)),c("h2",{},"What they dispute"),this.disputed,c("h2",{},"Every measure, this target"),this.order,this.canvas,this.members,this.table,c("h2",{},"Rank agreement"),c("p",{class:"quiet hint"},"Spearman's rank correlation over all sources but the target itself."),this.matrix,this.leftOut)}choose(t){let{start:e,stop:s,segment:n}=this.context.sources.groups[t],{open:r}=this.context.state;if(n!==null)return this.context.actions.set({open:[...r,n]});if(this.context.current.square){for(let o=e;o<s;o++)if(this.context.current.holds(o))return this.context.actions.set({target:o,node:null})}}close(t){let e=this.context.state.open.filter(s=>s!==t);this.context.actions.set({open:e})}point(t,e){if(t===null||!e)return this.context.actions.tip(null,[]);let s=this.context.sources.label(t);this.context.actions.tip(e,[s,...this.pair().map(n=>`${this.context.name(n.measured)}: ${v(n.values[t])}`)])}pair(){let{state:t,measured:e}=this.context;return[t.map,t.other??t.map].map(s=>this.rowsShown.find(n=>n.measured===e[s])).filter(Boolean)}update(t){this.context=t,this.rowsShown=zt(t);let{state:e,measured:s}=t,n=Nt(t,this.rowsShown);if(!n){this.refuse();return}this.element.classList.remove("alone");let r=this.rowsShown.map(o=>s.indexOf(o.measured));(e.other===null||e.other===e.map||!r.includes(e.other))&&(e.other=s.indexOf(n.measured)),this.choices.replaceChildren(z(`Compare ${t.name(t.current)} with`,r.filter(o=>o!==e.map).map(o=>[String(o),t.name(s[o])]),String(e.other),o=>t.actions.set({other:Number(o)}))),this.sides(),this.headlines(),this.disputed.replaceChildren(...ns(t,this.pair())),this.groups=ss(t,this.rowsShown),this.explainOrder(),this.draw(),this.matrix.replaceChildren(rs(t,this.groups)),this.fillLeftOut(),I(this.table,()=>this.rows())}explainOrder(){let{context:t,groups:e}=this,s=t.cueGroup,n=s===null?`by their agreement with ${t.name(t.current)}`:`by the rank that they give ${E(T(t.sources.label(s)))}`;this.order.textContent=`Sorted ${n}. Each row is shaded by its own largest share. Point at a cell for its number, click a row to compare with it.`;let r=e.filter(a=>a.length>1);this.members.hidden=r.length===0;let o=r.map(a=>{let l=a.slice(1).map(h=>t.name(h.measured));return`${t.name(a[0].measured)} +${l.length}: ${l.join(", ")}`});this.members.textContent=`Measures that order the sources alike (rank correlation 0.95 or more) share a row. ${o.join(". ")}.`}refuse(){this.element.classList.add("alone"),this.rowsShown=[];let{measure:t}=this.context.current.entry;this.headline.textContent=`Only ${t} has this target on this page.`,this.choices.replaceChildren(c("p",{class:"quiet"},"Give the page several measures of the same text to see where they disagree: maps.to_html(path, *others), or mixlens compare … --html out.html."))}sides(){let{context:t}=this;this.pair().forEach(({measured:e,values:s},n)=>{let r=S(s,t.own);this.readings[n].show(t.sources,t),this.readings[n].shadeBy(t,s,r,t.own,!0),this.names[n].textContent=t.name(e);let o=$(s,t.own).slice(0,3).map(a=>[t.sources.label(a.group),a.value]);this.tops[n].textContent=`${e.depthName(t.depthFor(e))}: ${Ft(o)}`})}headlines(){let{context:t}=this,e=this.pair(),s=e.map(h=>h.values),n=tt(t,e[0],e[1]),r=at(s,t.own)[0],o=c("b",{class:"outlined"},T(t.targets.label(t.targetGroup))),[a,l]=e.map(h=>t.name(h.measured));this.headline.replaceChildren("About ",o,`, ${a} and ${l} ${Rt(n)} (rank correlation ${n.toFixed(2)})`),r&&this.headline.append("; they differ most on ",c("b",{},T(t.sources.label(r.group))),`: ${v(s[0][r.group])} against ${v(s[1][r.group])}.`)}draw(){let t=this.element.clientWidth||900,e=this.height(t);this.painted(L(this.canvas,t,e),this.context,0),this.canvas.setAttribute("aria-label",`${this.rowsShown.length} measures in ${this.groups.length} rows by ${this.context.sources.size} sources: the shares of the target, as a heat map. A click compares with that measure.`)}height(t){return this.left=Math.min(ls,Math.round(t*.36)),this.cell=(t-this.left)/this.context.sources.size,this.groups.length*lt+(this.cell>=13?74:6)}painted(t,e,s){let{palette:n,own:r,sources:o,state:a,measured:l}=e;this.groups.forEach((u,d)=>{let{values:p}=u[0],m=s+d*lt,f=S(p,r)||1,g=[l[a.map],l[a.other??-1]],b=u.some(w=>g.includes(w.measured));t.text(this.left-10,m+15,A(t,`${Ht(d)}  ${xe(e,u)}`,13,this.left-16),{size:13,align:"right",fill:b?n.ink:n.quiet,weight:b?700:400});for(let w=0;w<o.size;w++){let C=w===r?0:p[w]/f;t.rect(this.left+w*this.cell,m,Math.max(this.cell-(this.cell>6?1:0),.6),lt-2,k(x(n,C)))}});let h=s+this.groups.length*lt;r>=0&&this.cell>=3&&t.rect(this.left+r*this.cell,s-.5,this.cell-1,h-s-1,null,n.ink,1.5,2),this.cell>=13&&o.groups.forEach((u,d)=>t.text(this.left+(d+.5)*this.cell+4,h+12,A(t,o.label(d),12,88),{size:12,rotate:-45,align:"right",fill:d===r?n.ink:n.quiet,weight:d===r?700:400}))}over(t){let e=this.groups[Math.floor(t.offsetY/lt)],s=e?.[0],n=Math.floor((t.offsetX-this.left)/this.cell),r=s&&n>=0&&n<this.context.sources.size;this.canvas.style.cursor=s?"pointer":"",this.context.actions.tip(r?t:null,r?[`${E(this.context.sources.label(n))}: ${v(s.values[n])}`,e.map(o=>this.context.name(o.measured)).join(", ")]:[])}pick(t){let e=this.groups[t]?.[0]?.measured,s=e?this.context.measured.indexOf(e):-1;s>=0&&s!==this.context.state.map&&this.context.actions.set({other:s})}fillLeftOut(){let t=Object.entries(this.context.payload.left_out??{});this.leftOut.hidden=t.length===0,this.leftOut.replaceChildren(c("summary",{},`${t.length} measures left out`),c("dl",{},...t.flatMap(([e,s])=>[c("dt",{},e),c("dd",{},s)])))}paint(t,e,s){if(this.rowsShown.length<2)return 0;t.text(0,20,A(t,this.headline.textContent??"",16,s),{size:16,weight:600,fill:e.palette.ink});let n=40;this.pair().forEach(({measured:o,values:a},l)=>{t.text(0,n+14,e.name(o),{size:13,fill:e.palette.quiet}),n+=20+this.readings[l].paint(t,e,0,n+20,s,a,S(a,e.own),e.own)+10});let r=this.height(s);return this.painted(t,e,n),this.height(this.element.clientWidth||900),n+r}rows(){let{context:t,rowsShown:e}=this;return[["source",...e.map(s=>t.name(s.measured))],...t.sources.groups.map((s,n)=>[t.sources.label(n),...e.map(r=>r.values[n].toPrecision(3))])]}};function hs(i,t,e,s=i.entry.layers.length){let n=un(i),{start:r,stop:o}=t.groups[e],a=new Float64Array(t.of.length),l=0;for(let d=r;d<o;d++)l+=n[s][d];for(let d=r;d<o;d++)a[d]=l>0?1/l:0;let h=Array.from({length:s+1},()=>new Float64Array(t.size));for(let d=r;d<o;d++)h[s][e]+=a[d]*n[s][d];let u=[];for(let d=s-1;d>=0;d--){let p=new Float64Array(a.length),m=new Map;for(let f=0;f<a.length;f++){if(a[f]===0)continue;let g=a[f];i.eachTransition(d,f,(b,w)=>{p[b]+=g*w;let C=t.of[b]*t.size+t.of[f];m.set(C,(m.get(C)??0)+g*w*n[d][b])})}for(let[f,g]of m){let b=Math.floor(f/t.size);h[d][b]+=g,g>1e-4&&u.push({level:d,source:b,target:f%t.size,value:g})}a=p}return{levels:s+1,mass:h,edges:u}}function un(i){let t=i.sources.labels.length,e=[new Float64Array(t).fill(1)];return i.entry.layers.forEach((s,n)=>{let r=new Float64Array(t).fill(i.entry.joined?.normalise===!1?0:1);if(i.entry.joined?.normalise===!1)for(let o=0;o<t;o++)i.eachTransition(n,o,(a,l)=>{r[o]+=l*e[n][a]});e.push(r)}),e}function cs(i,t,e){let s=[],n=i.mass.map(()=>[]);for(let o of i.edges)n[o.level].push(o);let r=new Float64Array(i.mass[t].length);r[e]=i.mass[t][e];for(let o=t-1;o>=0;o--){let a=new Float64Array(r.length);for(let l of n[o]){let h=i.mass[o+1][l.target],u=h>0?l.value*r[l.target]/h:0;u>0&&s.push({...l,value:u}),a[l.source]+=u}r=a}r=new Float64Array(r.length),r[e]=i.mass[t][e];for(let o=t;o<i.levels-1;o++){let a=new Float64Array(r.length);for(let l of n[o]){let h=i.mass[o][l.source],u=h>0?l.value*r[l.source]/h:0;u>0&&s.push({...l,value:u}),a[l.target]+=u}r=a}return s}var V=64,us=40,ds=92,dn=1200,Wt=class{constructor(){this.words=c("p",{class:"quiet","aria-live":"polite"});this.shown=c("output",{});this.flow=null;this.key="";this.width=0;this.step=54;this.at=null;this.canvas=N({over:t=>this.over(t),leave:()=>this.leave(),choose:()=>this.trace(),step:(t,e)=>this.walk(t,e)}),this.slider=c("input",{type:"range",min:"0",max:"100",step:"1","aria-label":"Smallest share that is drawn",oninput:()=>this.context.actions.set({threshold:pn(Number(this.slider.value))})}),this.controls=c("label",{class:"field"},c("span",{},"Show from"),this.slider,this.shown),this.table=D("Flow",()=>this.rows()),this.element=c("div",{class:"flow-view"},c("div",{class:"bar-line"},this.words,this.controls),this.canvas,this.table)}update(t){this.context=t;let{current:e,state:s,targets:n}=t,r=this.refusal();if(this.canvas.hidden=this.table.hidden=this.controls.hidden=r!==null,r!==null){this.words.textContent=r;return}let o=this.depth(),a=[s.map,s.target,s.unit,s.open,n.size,o].join(" ");a!==this.key&&(this.key=a,this.flow=hs(e,n,n.of[s.target],o)),this.slider.value=String(mn(s.threshold)),this.shown.textContent=v(s.threshold),this.canvas.setAttribute("aria-label","The flow from the input tokens to the target. Arrow keys move between tokens and layers, Enter traces one."),this.draw(),I(this.table,()=>this.rows())}depth(){let{state:t,current:e}=this.context,s=typeof t.depth=="number"?t.depth:W(t.depth);return s===null?e.entry.layers.length:s+1}refusal(){let{current:t,targets:e}=this.context;return t.entry.reaches_input?`Each layer of ${t.entry.measure} already refers to the input tokens, so there is no flow to show.`:!t.whole||!t.entry.joined?"A flow needs the maps of every layer for every token of one text. These have only some targets or layers, or two texts.":e.size>dn?"The text is too long to follow: choose words or segments above.":null}edges(){let{node:t,threshold:e}=this.context.state,s=this.flow;return(t&&t[0]<s.levels&&t[1]<this.context.targets.size?cs(s,t[0],t[1]):s.edges).filter(o=>o.value>=e).sort((o,a)=>o.value-a.value)}x(t){return V+(t+.5)*(this.width-V-12)/this.context.targets.size}y(t){return us+(this.flow.levels-1-t)*this.step}draw(){if(this.canvas.hidden||!this.flow)return;this.width=this.element.clientWidth||900,this.step=this.flow.levels>14?34:56;let t=this.y(0)+ds,e=L(this.canvas,this.width,t);this.painted(e,this.context)}painted(t,e){let{palette:s,state:n,targets:r,current:o}=e,a=this.flow,l=this.edges(),h=o.entry.layers;for(let M=0;M<a.levels;M++){let q=M===0?"input":`${M===a.levels-1?"layer ":""}${h[M-1]}`;t.text(V-12,this.y(M)+4,q,{size:12,fill:s.quiet,align:"right"}),t.rect(V,this.y(M),this.width-V-12,.5,s.line)}let u=k(x(s,.78)),d=new Map,p=n.node&&a.mass[n.node[0]]?.[n.node[1]]||1;for(let M of l){let q=M.value/p,G=Math.max(.8,15*q);t.curve(this.x(M.source),this.y(M.level),this.x(M.target),this.y(M.level+1),G,u,Math.min(.9,.22+1.6*q));for(let[H,B]of[[M.level,M.source],[M.level+1,M.target]])d.set(`${H} ${B}`,a.mass[H][B])}let m=a.levels-1,f=r.of[n.target];d.set(`${m} ${f}`,1);for(let[M,q]of d){let[G,H]=M.split(" ").map(Number),B=n.node?.[0]===G&&n.node[1]===H,bt=this.at?.[0]===G&&this.at[1]===H;t.circle(this.x(H),this.y(G),2.5+5.5*Math.sqrt(q),u,B||bt?s.ink:s.paper)}let g=t.width(r.label(f),14,700)/2,b=Math.max(g,Math.min(this.width-g-2,this.x(f)));t.text(b,this.y(m)-16,r.label(f),{size:14,weight:700,fill:s.ink,align:"center"}),this.inputs(t,e,d);let w=n.node?` through ${E(r.label(n.node[1]))} at ${qt(n.node[0],h)}`:"",C=E(r.label(f)),O=n.node?a.mass[n.node[0]]?.[n.node[1]]??0:0;this.words.textContent=w?`${v(O)} of ${C} passes${w}. Click it again to see everything.`:`How ${C} is put together, from the input below to ${m===h.length?"the last layer":`layer ${h[m-1]}`} above. Click a point to trace what passes it.`}inputs(t,e,s){let{palette:n,targets:r}=e,o=(this.width-V)/r.size,a=r.groups.map((h,u)=>u).sort((h,u)=>this.flow.mass[0][u]-this.flow.mass[0][h]),l=[];for(let h of a){let u=this.x(h),d=s.has(`0 ${h}`);if(o<15&&(!d||l.some(m=>Math.abs(m-u)<15)))continue;l.push(u);let p=A(t,r.label(h),12,84);t.text(u+4,this.y(0)+18,p,{size:12,rotate:-50,align:"right",fill:d?n.ink:n.quiet,weight:d?600:400})}}over(t){let e=this.flow,s=e.levels-1-Math.round((t.offsetY-us)/this.step),n=Math.round((t.offsetX-V)*this.context.targets.size/(this.width-V-12)-.5),r=s>=0&&s<e.levels&&n>=0&&n<this.context.targets.size;this.at=r?[s,n]:null,this.canvas.style.cursor=r?"pointer":"",this.context.actions.tip(r?t:null,this.sentence()),this.draw()}sentence(){if(!this.at)return[];let[t,e]=this.at,{context:s}=this,n=s.targets.label(s.targets.of[s.state.target]),{layers:r}=s.current.entry;return[`${E(s.targets.label(e))} at ${qt(t,r)}`,`${v(this.flow.mass[t][e])} of ${n} passes here`]}trace(){if(!this.at)return;let{node:t}=this.context.state,e=t&&t[0]===this.at[0]&&t[1]===this.at[1];this.context.actions.set({node:e?null:[...this.at]})}leave(){this.at=null,this.context.actions.tip(null,[]),this.draw()}walk(t,e){let{context:s}=this,[n,r]=this.at??[this.flow.levels-1,s.targets.of[s.state.target]];this.at=[P(n-e,this.flow.levels),P(r+t,s.targets.size)],s.actions.announce(this.sentence().join(", ")),this.draw()}paint(t,e,s){if(!this.flow||this.canvas.hidden)return 0;this.width=s,this.painted(t,e);let n=this.y(0)+ds;return this.draw(),n}rows(){let{context:t}=this,e=t.current.entry.layers;return[["from","source","to","target","share of the target"],...this.edges().reverse().map(s=>[qt(s.level,e),t.targets.label(s.source),qt(s.level+1,e),t.targets.label(s.target),s.value.toPrecision(3)])]}};function qt(i,t){return i===0?"the input":`layer ${t[i-1]}`}function pn(i){return Number((.001*500**(i/100)).toPrecision(2))}function mn(i){return Math.round(Math.log(Math.max(i,.001)/.001)/Math.log(500)*100)}var Dt=255,ps=new Map;function fn(i){let t=ps.get(i);if(!t){t=new Uint32Array(2*Dt+1);for(let e=0;e<t.length;e++){let[s,n,r]=x(i,(e-Dt)/Dt);t[e]=(255<<24|r<<16|n<<8|s)>>>0}ps.set(i,t)}return t}function ht(i,t,e,s,n){let r=document.createElement("canvas");r.width=s,r.height=e;let o=r.getContext("2d"),a=o.createImageData(s,e),l=new Uint32Array(a.data.buffer),h=fn(i);for(let u=0;u<t.length;u++){let d=Math.max(-1,Math.min(1,t[u]/n));l[u]=h[Math.round((d+1)*Dt)]}return o.putImageData(a,0,0),r}function ft(i,t,e){let s=1e-12;for(let n=0;n<i.length;n++)e&&Math.floor(n/t)===n%t||(s=Math.max(s,Math.abs(i[n])));return s}var ct=58,It=24,J=6,gn=400,_t=class{constructor(){this.words=c("p",{class:"quiet"});this.tile=64;this.pictures=[];this.key="";this.at=null;this.canvas=N({over:t=>this.over(t),leave:()=>this.pointAt(null,null),choose:()=>this.enter(),step:(t,e)=>this.walk(t,e)}),this.table=D("Heads",()=>this.rows()),this.whole=c("button",{type:"button",onclick:()=>this.context.actions.set({head:null})},"Back to whole layers"),this.element=c("div",{class:"heads-view"},c("div",{class:"bar-line"},this.words,this.whole),this.canvas,this.table)}update(t){this.context=t;let{current:e,measured:s}=t,n=a=>a.heads>0&&a.targets===e.targets&&a.sources===e.sources;this.shown=e.heads?e:s.find(n)??e;let r=this.shown.heads===0;if(this.canvas.hidden=this.table.hidden=r,this.whole.hidden=t.state.head===null,r){let a=e.entry.notes?.find(l=>l.includes("heads are left out"));this.words.textContent=a??`This page has no single heads. To add them, also pass lens.measure("${e.entry.measure}", text, per_head=True).`;return}let o=this.shown===e?"":`${t.name(e)} was measured by whole layers. These are the heads of ${t.name(this.shown)}. `;this.words.textContent=`${o}Layers down, heads across. In each, targets down and sources across, shaded by its own largest share. A click opens one.`,this.prepare(),this.canvas.setAttribute("aria-label",`${this.shown.entry.layers.length} layers by ${this.shown.heads} heads. Arrow keys move, Enter opens a head.`),this.draw(),I(this.table,()=>this.rows())}prepare(){let{context:t,shown:e}=this,{targets:s,sources:n,palette:r,state:o}=t,a=[t.measured.indexOf(e),r.dark,s.size,n.size,o.unit,o.hide].join(" ");if(a===this.key)return;this.key=a;let l=[...new Set(e.held.map(h=>s.of[h]))].sort((h,u)=>h-u).slice(0,gn);this.pictures=e.entry.layers.flatMap((h,u)=>Array.from({length:e.heads},(d,p)=>{let m=new Float32Array(l.length*n.size);l.forEach((g,b)=>m.set(e.incoming({depth:u,head:p},s,g,n),b*n.size));let f=ft(m,n.size,e.square&&l.length===n.size);return ht(r,m,l.length,n.size,f)}))}size(t){let{heads:e,entry:s}=this.shown;return this.tile=Math.max(18,Math.min(132,(t-ct)/e-J)),[ct+e*(this.tile+J),It+s.layers.length*(this.tile+J)]}draw(){if(this.canvas.hidden)return;let[t,e]=this.size(this.element.clientWidth||900);this.painted(L(this.canvas,t,e),this.context)}painted(t,e){let{palette:s,state:n}=e,{tile:r,shown:o}=this,a={size:12,fill:s.quiet};for(let l=0;l<o.heads;l++)t.text(ct+l*(r+J)+r/2,It-9,l===0?"head 0":String(l),{...a,align:"center"});o.entry.layers.forEach((l,h)=>{let u=It+h*(r+J);t.text(ct-10,u+r/2+4,h===0?`layer ${l}`:String(l),{...a,align:"right"});for(let d=0;d<o.heads;d++){let p=ct+d*(r+J);t.image(this.pictures[h*o.heads+d],p,u,r,r);let f=o===e.current&&n.head===d&&n.depth===h,g=this.at?.[0]===h&&this.at[1]===d;t.rect(p,u,r,r,null,f||g?s.ink:s.line,f?3:g?2:1)}})}over(t){let e=Math.floor((t.offsetX-ct)/(this.tile+J)),s=Math.floor((t.offsetY-It)/(this.tile+J)),{heads:n,entry:r}=this.shown,o=e>=0&&s>=0&&e<n&&s<r.layers.length;this.pointAt(o?[s,e]:null,t)}pointAt(t,e){this.at=t,this.canvas.style.cursor=t?"pointer":"",this.context.actions.tip(t?e:null,this.sentence()),this.draw()}sentence(){if(!this.at)return[];let[t,e]=this.at,{context:s}=this,n=s.incoming(this.shown,{depth:t,head:e}),r=$(n,s.own).slice(0,3),o=s.targets.label(s.targetGroup);return[`Layer ${this.shown.entry.layers[t]}, head ${e}`,...r.map(({group:a,value:l})=>`${E(s.sources.label(a))}: ${v(l)} of ${E(o)}`)]}enter(){if(!this.at)return;let t=this.context.measured.indexOf(this.shown);this.context.actions.set({map:t,depth:this.at[0],head:this.at[1],view:"map"})}walk(t,e){let[s,n]=this.at??[0,-1],{entry:r,heads:o}=this.shown;this.at=[P(s+e,r.layers.length),P(n+t,o)],this.context.actions.announce(this.sentence().join(", ")),this.draw()}paint(t,e,s){if(!this.shown.heads)return 0;this.prepare();let[,n]=this.size(s);return this.painted(t,e),n}rows(){let{context:t,shown:e}=this,s=t.targets.label(t.targetGroup),n=[["layer","head","target","largest source","share"]];return e.entry.layers.forEach((r,o)=>{for(let a=0;a<e.heads;a++){let l=t.incoming(e,{depth:o,head:a}),h=$(l,t.own)[0];n.push([String(r),String(a),s,h?t.sources.label(h.group):"",S(l,t.own).toPrecision(3)])}}),n}};function Gt(i,t,e){let s=c("span",{class:"ramp"}),n=e?-5:0,r=Array.from({length:6-n},(o,a)=>k(x(i,(a+n)/5)));return s.style.backgroundImage=`linear-gradient(to right, ${r.join(", ")})`,[c("span",{},e?v(-t):"0 %"),s,c("span",{},v(t))]}var bn=2500,y=108,ke=10,Bt=class{constructor(){this.spacer=c("div",{class:"spacer"});this.words=c("p",{class:"quiet"});this.legend=c("p",{class:"legend"});this.values=new Float32Array;this.picture=null;this.key="";this.cell=16;this.zoom=1;this.at=null;this.canvas=N({over:e=>this.over(e),leave:()=>this.moved(null,null),choose:()=>this.choose(),step:(e,s)=>this.walk(e,s)}),this.scroller=c("div",{class:"scroller",onscroll:()=>this.draw()},this.canvas,this.spacer),this.table=D("Map",()=>this.rows());let t=c("label",{class:"field"},c("span",{},"Zoom"),c("input",{type:"range",min:"1",max:"12",step:"0.5",value:"1",oninput:e=>{this.zoom=Number(e.target.value),this.layout()}}));this.element=c("div",{class:"map-view"},c("div",{class:"bar-line"},this.words,t),this.legend,this.scroller,this.table)}update(t){this.context=t;let{targets:e,sources:s,current:n,state:r}=t,o=this.held();if(Math.max(o.length,s.size)>bn){this.words.textContent=`${o.length} × ${s.size} cells are too many to see: choose words or segments above.`,this.scroller.hidden=this.legend.hidden=!0;return}this.scroller.hidden=this.legend.hidden=!1;let a=[r.map,r.depth,r.head,t.palette.dark,e.size,s.size,r.unit,r.open,r.hide].join(" ");if(a!==this.key){this.key=a;let l=new Float32Array(o.length*s.size);o.forEach((u,d)=>l.set(n.incoming(t.choice,e,u,s),d*s.size)),this.values=l;let h=ft(l,s.size,n.square&&o.length===s.size);this.picture=ht(t.palette,l,o.length,s.size,h),this.words.textContent="Targets down, sources across. Click a row to choose its target.",this.legend.replaceChildren(...Gt(t.palette,h,n.entry.signed),c("span",{class:"quiet"},vn(n.square)))}this.canvas.setAttribute("aria-label",`Map of ${o.length} targets by ${s.size} sources. Arrow keys move, Enter chooses the target.`),this.layout(),I(this.table,()=>this.rows())}held(){let{targets:t,current:e}=this.context;return[...new Set(e.held.map(n=>t.of[n]))].sort((n,r)=>n-r)}layout(){if(this.scroller.hidden)return;let{sources:t}=this.context,e=this.held().length,s=Math.max(200,this.scroller.clientWidth||900)-y-16,n=Math.max(240,window.innerHeight*.7)-y,r=Math.min(44,s/t.size,Math.max(n/e,7));this.cell=Math.max(r,1)*this.zoom;let[o,a]=[t.size*this.cell+y+ke,e*this.cell+y+ke],l=Math.max(320,window.innerHeight*.78);this.scroller.style.height=`${Math.min(a+18,l)}px`,this.spacer.style.width=`${o}px`,this.spacer.style.height=`${a}px`,this.draw()}draw(){let t=this.scroller.clientWidth,e=this.scroller.clientHeight;if(!t||!this.picture)return;let s=L(this.canvas,t,e);this.painted(s,this.context,this.cell,this.scroller.scrollLeft,this.scroller.scrollTop,t,e)}painted(t,e,s,n,r,o,a){let{palette:l,sources:h,targets:u}=e,d=this.held();t.image(this.picture,y-n,y-r,h.size*s,d.length*s);let p=d.indexOf(e.targets.of[e.state.target]);if(p>=0&&t.rect(y-n,y-r+p*s,h.size*s,Math.max(s,2),null,l.ink,1.5),this.at){let[f,g]=this.at;t.rect(y-n+g*s,y-r+f*s,Math.max(s,2),Math.max(s,2),null,l.ink,2)}t.rect(0,0,y-2,a,l.paper),t.rect(0,0,o,y-2,l.paper);let m=Math.max(1,Math.ceil(12/s));this.names(t,u,d,m,s,(f,g,b)=>{let w=y-r+(f+.5)*s;w>y-4&&w<a&&t.text(y-8,w+4,A(t,g,12,y-14),{size:12,align:"right",fill:b?l.ink:l.quiet,weight:b?700:400})},this.at?.[0]??-1,p),this.names(t,h,h.groups.map((f,g)=>g),m,s,(f,g,b)=>{let w=y-n+(f+.5)*s;w>y-4&&w<o&&t.text(w+4,y-8,A(t,g,12,y+6),{size:12,rotate:-60,fill:b?l.ink:l.quiet,weight:b?700:400})},this.at?.[1]??-1,-1),t.rect(0,0,y-14,y-30,l.paper)}names(t,e,s,n,r,o,a,l){s.forEach((h,u)=>{let d=a>=0&&Math.abs(u-a)*r<12&&u!==a;(u===a||u===l||u%n===0&&!d)&&o(u,e.label(h),u===a||u===l)})}over(t){let e=Math.floor((t.offsetX-y+this.scroller.scrollLeft)/this.cell),s=Math.floor((t.offsetY-y+this.scroller.scrollTop)/this.cell),n=t.offsetX>=y&&t.offsetY>=y&&s<this.held().length&&e<this.context.sources.size;this.moved(n?[s,e]:null,t)}moved(t,e){this.at=t;let s=this.sentence();this.context.actions.tip(t?e:null,s),this.canvas.style.cursor=t?"pointer":"",this.draw()}sentence(){if(!this.at)return[];let{context:t}=this,[e,s]=this.at,n=this.held()[e],r=this.values[e*t.sources.size+s],o=t.current.total(t.choice,t.targets.groups[n].start),a=[`${E(t.sources.label(s))} → ${E(t.targets.label(n))}`,v(r)];return o!==null&&t.state.unit==="tokens"&&a.push(`score ${(r*o).toPrecision(3)}`),a}choose(){if(!this.at)return;let{start:t,stop:e}=this.context.targets.groups[this.held()[this.at[0]]];for(let s=t;s<e;s++)if(this.context.current.holds(s))return this.context.actions.set({target:s,node:null})}walk(t,e){let[s,n]=this.at??[0,-1];this.at=[P(s+e,this.held().length),P(n+t,this.context.sources.size)],this.context.actions.announce(this.sentence().join(", ")),this.draw()}paint(t,e,s){let{sources:n}=e,r=this.held().length,o=Math.min(28,Math.max(1,(s-y)/n.size)),a=this.at;this.at=null;let l=r*o+y;if(n.size*r<=4e3){this.painted(t,e,o,0,0,s,l+2),this.cells(t,e,o,r);let h=this.held().indexOf(e.targets.of[e.state.target]),[u,d]=[y+h*o,n.size*o];h>=0&&t.rect(y,u,d,o,null,e.palette.ink,1.5)}else this.painted(t,e,o,0,0,s,l+2);return this.at=a,l+ke}cells(t,e,s,n){let r=e.sources.size,o=ft(this.values,r,e.current.square&&n===r);for(let a=0;a<this.values.length;a++){let l=Math.max(-1,Math.min(1,this.values[a]/o));t.rect(y+a%r*s,y+Math.floor(a/r)*s,s-.5,s-.5,k(x(e.palette,l)))}}rows(){let{context:t}=this,e=t.sources.size;return[["target",...t.sources.groups.map((s,n)=>t.sources.label(n))],...this.held().map((s,n)=>[t.targets.label(s),...Array.from(this.values.subarray(n*e,(n+1)*e),r=>r.toPrecision(3))])]}},vn=i=>`share of the target${i?" · the largest off the diagonal has the strongest colour":""}`;function ms(i,t){let e=Object.entries(i.evaluations),[s,...n]=i.verdict.split(`
`),r=c("tr",{},c("th",{scope:"col"},"measure"),c("th",{scope:"col"},"mean rank"),...e.map(([a,{direction:l}])=>c("th",{scope:"col"},a.replaceAll("_"," "),c("small",{},l==="neither"?"":`${l} is better`)))),o=i.measures.map(({measure:a,mean_rank:l})=>c("tr",{class:a==="random"?"baseline":null},c("th",{scope:"row"},a),c("td",{},Ut(l)),...e.map(([,{measures:h}])=>wn(h[a],Object.values(h),t,a==="random"))));return c("div",{class:"ranking-view"},c("h1",{class:"answer"},s??""),...n.map(a=>c("p",{},a)),c("p",{class:"quiet hint"},`${i.texts} texts. Dots lie between the lowest and the highest value of the column, with their 95 % interval. Bold is best, grey italics are not better than random numbers.`),c("div",{class:"wide",tabindex:"0",role:"region","aria-label":"Ranked measures"},c("table",{class:"ranks"},c("thead",{},r),c("tbody",{},...o))),c("h2",{},"What was asked"),c("dl",{},...e.flatMap(([a,{summary:l}])=>[c("dt",{},a.replaceAll("_"," ")),c("dd",{},l)])))}function Ut(i){return i==null?"–":i.toFixed(2).replace("-","−")}function wn(i,t,e,s){if(!i||i.value===null)return c("td",{},"–");let n=t.flatMap(m=>[m.low,m.high,m.value]).filter(m=>m!==null),[r,o]=[Math.min(...n),Math.max(...n)],a=m=>o>r?(m-r)/(o-r)*100:50,l=c("span",{class:"interval"});l.style.left=`${a(i.low??i.value)}%`,l.style.width=`${a(i.high??i.value)-a(i.low??i.value)}%`;let h=c("span",{class:"dot"});h.style.left=`${a(i.value)}%`;let u=s||i.not_better_than_random;h.style.backgroundColor=u?e.quiet:k(x(e,.75));let d=i.is_best?"best":i.not_better_than_random?"luck":null,p=i.low===null?"":`${Ut(i.low)} to ${Ut(i.high)}`;return c("td",{class:d,title:p},Ut(i.value),c("span",{class:"scale","aria-hidden":"true"},l,h))}var fs=3;function gs(i){return[yn(i),kn(i)].filter(t=>t!==null)}function xn(i){let{current:t,state:e}=i,{targets:s}=i,n=i.fine(t.sources),r=s.of[e.target],o=t.square?n.of[e.target]:-1,a=new Map;return t.entry.layers.forEach((l,h)=>{let u=t.incoming({depth:h,head:e.head},s,r,n);for(let d of $(u,o).slice(0,fs))Math.abs(d.value)>Math.abs(a.get(d.group)?.value??0)&&a.set(d.group,{label:n.label(d.group),layer:l,value:d.value})}),[...a.values()].sort((l,h)=>Math.abs(h.value)-Math.abs(l.value)).slice(0,fs)}function yn(i){let{entry:t}=i.current,e=t.layers.length>1?xn(i):[];if(!e.length)return null;let s=e.map(({label:n,layer:r,value:o})=>[c("b",{},T(n)),` (${v(o)} ${t.reaches_input?"up to":"in"} layer ${r})`]);return c("p",{},"Layer by layer, most came from ",...kt(s),".")}function kn(i){let t=zt(i),e=Nt(i,t),s=t.find(p=>p.measured===i.current);if(!e||!s)return null;let n=tt(i,s,e),r=t.length-1,o=c("b",{},i.name(e.measured)),a=` (rank correlation ${n.toFixed(2).replace("-","−")})`,l=r===1?[o,` ${Rt(n).replace("agree","agrees")}${a}`]:[`Of ${r} other measures `,o,` agrees least${a}`],h=at([s.values,e.values],i.own)[0];h&&l.push(...Mn(i,h.group,s.values,e.values));let u=i.measured.indexOf(e.measured),d=()=>i.actions.set({view:"compare",other:u});return c("p",{},...l,". ",c("button",{type:"button",class:"link",onclick:d},"Compare"))}function Mn(i,t,e,s){let n=c("b",{},T(i.sources.label(t))),r=` ${v(s[t])} instead of ${v(e[t])}`;return["; it differs most on ",n,`:${r}`]}var j=64,Tn=7,Vt=i=>i.depth==="all"||i.depth==="mean",Jt=class{constructor(){this.name=c("h2",{});this.other=c("button",{type:"button",class:"turn",onclick:()=>this.turn()});this.strips=[];this.rowHeight=18;this.cell=1;this.canvas=c("canvas",{tabindex:"0",role:"img",onmousemove:t=>this.over(t),onmouseleave:()=>this.context.actions.tip(null,[]),onclick:t=>this.choose(this.hit(t)?.strip??-1),onkeydown:t=>this.key(t)}),this.table=D("Layers",()=>this.rows()),this.element=c("section",{class:"layers","aria-label":"Layer by layer"},c("div",{class:"layers-head"},this.name,this.other),this.canvas,this.table)}update(t){this.context=t;let{current:e}=t;if(this.element.hidden=e.entry.layers.length<2,this.element.hidden)return;let s=this.joined(),n=s?[...e.upTo]:e.entry.layers.map((h,u)=>u);n.push(...this.summaries(s)),this.strips=n.map(h=>({depth:h,name:h==="all"||h==="mean"?this.summaryName(h):String(e.entry.layers[W(h)??Number(h)]),values:t.incoming(e,{depth:h,head:typeof h=="number"?t.state.head:null})}));let r=this.element.clientWidth||640,o=this.height(r);this.draw(L(this.canvas,r,o),r);let a=t.targets.label(t.targetGroup),l=s?" has taken up to each layer":" took in each layer";this.name.replaceChildren("What ",c("b",{},T(a)),l),this.other.hidden=e.upTo.length===0,this.other.textContent=s?"Each layer by itself":"Up to each layer",this.canvas.setAttribute("aria-label",`What ${E(a)}${l}, as a heat map: ${this.strips.length} rows, ${t.sources.size} columns. Arrow keys up and down choose a layer.`),I(this.table,()=>this.rows())}summaryName(t){let e=this.context.current.entry.joined?.how.replace(/\(.*/,"")??"";return t==="mean"?"mean":e||"all"}summaries(t){let{current:e,state:s}=this.context,n=["mean","all"].filter(o=>e.depths.includes(o)),r=t?"all":n[0];return n.filter(o=>o===r||o===s.depth)}joined(){let{state:t,current:e}=this.context;return typeof t.depth=="number"||!e.upTo.length?!1:t.rows==="upto"||W(t.depth)!==null}turn(){let{state:t,actions:e}=this.context,s=this.joined(),{depth:n}=t,r=typeof n=="number"?n:W(n),o=this.context.current.entry.layers.length-1,a=r===null||r===o?"all":`to${r}`;e.set({rows:s?"each":"upto",head:null,depth:s?r??this.context.current.defaultDepth:a})}height(t){let e=this.strips.length;return this.rowHeight=e>40?7:e>16?11:18,this.cell=(t-j)/this.context.sources.size,this.top(e)+this.labels(t)}top(t){let e=this.strips.findIndex(Vt);return t*this.rowHeight+(e>=0&&t>=e?Tn:0)}labels(t){return this.cell<13?this.context.current.sources.seconds?18:4:this.slanted(t)?74:20}slanted(t){let e=new Q(this.canvas.getContext("2d")),s=(t-j)/this.context.sources.size;return this.context.sources.groups.some((n,r)=>e.width(this.context.sources.label(r),12)>s-4)}draw(t,e,s=0){let{context:n,strips:r,rowHeight:o}=this,{palette:a,own:l,state:h}=n,u=r.filter(p=>!Vt(p)),d=Math.max(1e-12,...u.map(p=>S(p.values,l)));r.forEach((p,m)=>{let f=s+this.top(m),g=p.depth===h.depth,b=Vt(p)?Math.max(1e-12,S(p.values,l)):d,w=o>=13?1:o>=10?2:4;(m%w===0||g||Vt(p))&&t.text(j-10,f+o/2+4,`${m===0?this.joined()?"up to ":"layer ":""}${p.name}`,{size:12,fill:g?a.ink:a.quiet,weight:g?700:400,align:"right"}),this.cells(t,p.values,l,b,f),g&&t.rect(j-1,f-1,e-j+1,o+.5,null,a.ink,1.5,3)}),this.drawColumns(t,e,s)}cells(t,e,s,n,r){let{context:o,cell:a,rowHeight:l}=this,h=m=>Math.max(-1,Math.min(1,m/n));if(a>=6){e.forEach((m,f)=>{let g=k(x(o.palette,h(m)));t.rect(j+f*a,r,a-1,l-1.5,g)});return}let u=Math.max(1,Math.round(1.5/a)),d=new Float32Array(Math.ceil(e.length/u));e.forEach((m,f)=>{let g=Math.floor(f/u);f!==s&&Math.abs(m)>Math.abs(d[g])&&(d[g]=m)});let p=ht(o.palette,d,1,d.length,n);t.image(p,j,r,a*u*d.length,l-1.5)}drawColumns(t,e,s){let{context:n,cell:r}=this,{palette:o,own:a,sources:l}=n,h=s+this.top(this.strips.length)-1,u=n.current.sources.seconds;if(u){let p=Me(u*l.size);for(let m=0;m<=u*l.size;m+=p)t.text(j+m/u*r,h+14,`${Number(m.toFixed(2))} s`,{size:11,fill:o.quiet,align:m+p>u*l.size?"right":m?"center":"left"});return}if(a>=0&&r>=3&&t.rect(j+a*r-.5,s-.5,r,h-s+.5,null,o.ink,1.5,2),r<13)return;let d=this.slanted(e);l.groups.forEach((p,m)=>{let f=j+(m+.5)*r,g={size:12,fill:m===a?o.ink:o.quiet,weight:m===a?700:400},b=A(t,l.label(m),12,d?88:r);d?t.text(f+4,h+12,b,{...g,align:"right",rotate:-45}):t.text(f,h+15,b,{...g,align:"center"})})}hit(t){let e=this.strips.findIndex((n,r)=>t.offsetY>=this.top(r)&&t.offsetY<this.top(r)+this.rowHeight),s=Math.floor((t.offsetX-j)/this.cell);return e<0?null:{strip:e,group:s>=0&&s<this.context.sources.size?s:-1}}over(t){let e=this.hit(t);if(this.canvas.style.cursor=e?"pointer":"",!e||e.group<0)return this.context.actions.tip(null,[]);let{strip:s,group:n}=e,{context:r}=this,o=this.strips[s].values[n],a=r.targets.label(r.targetGroup);r.actions.tip(t,[`${E(r.sources.label(n))}: ${v(o)} of ${E(a)}`,r.current.depthName(this.strips[s].depth)])}choose(t){let e=this.strips[t]?.depth;e!==void 0&&this.context.actions.set({depth:e,head:typeof e=="number"?this.context.state.head:null})}key(t){let e={ArrowUp:-1,ArrowDown:1}[t.key];if(!e)return;t.preventDefault();let s=this.strips.findIndex(r=>r.depth===this.context.state.depth),n=Math.max(0,Math.min(this.strips.length-1,s+e));this.choose(n),this.context.actions.announce(this.context.current.depthName(this.strips[n].depth))}paint(t,e,s,n){if(this.element.hidden)return 0;let r=this.height(n);return this.draw(t,n,s),r}rows(){let{sources:t}=this.context;return[["source",...this.strips.map(e=>this.context.current.depthName(e.depth))],...t.groups.map((e,s)=>[t.label(s),...this.strips.map(n=>n.values[s].toPrecision(3))])]}};function Me(i){let t=i/6,e=10**Math.floor(Math.log10(t));return([1,2,5,10].find(s=>s*e>=t)??10)*e}var K=120,bs=22,Kt=class{constructor(){this.context=null;this.values=[];this.scale=0;this.at=null;this.canvas=N({over:t=>this.over(t),leave:()=>this.pointAt(null,null),choose:()=>this.choose(),step:t=>this.walk(t)}),this.canvas.setAttribute("aria-label","The share of each frame over time; the ranked list has the numbers. Arrow keys move, Enter chooses a frame."),this.element=c("figure",{class:"strip"},this.canvas)}show(t,e,s){t.current.sources.seconds&&(Object.assign(this,{context:t,values:e,scale:s}),this.draw())}draw(){if(!this.context)return;let t=this.element.clientWidth||640;this.painted(L(this.canvas,t,K+bs),this.context,0,0,t)}painted(t,e,s,n,r){let{palette:o}=e,a=e.current.sources.seconds,l=r/this.values.length;for(let d=0;d<this.values.length;d++){let p=this.scale>0?this.values[d]/this.scale:0,m=Math.max(1,Math.abs(p)*K),f=k(x(o,.25*Math.sign(p||1)+.75*p)),g=Math.max(l-(l>4?1:0),.7);d===e.own?t.rect(s+d*l-1,n,g+2,K,null,o.ink):d===this.at&&t.rect(s+d*l,n,g,K,o.band),d!==e.own&&t.rect(s+d*l,n+K-m,g,m,f)}t.rect(s,n+K,r,1,o.quiet);let h=a*this.values.length,u=Me(h);for(let d=0;d<=h+1e-9;d+=u)t.text(s+d/h*r,n+K+16,`${Number(d.toFixed(2))} s`,{size:12,fill:o.quiet,align:d===0?"left":d+u>h?"right":"center"})}over(t){let e=Math.floor(t.offsetX/this.canvas.clientWidth*this.values.length);this.pointAt(P(e,this.values.length),t)}pointAt(t,e){this.at=t,this.context?.actions.tip(e,this.words()),this.draw()}words(){let{context:t,at:e}=this;return!t||e===null?[]:[t.sources.label(e),`${v(this.values[e])} of the target`]}choose(){let{context:t,at:e}=this;if(!t||e===null||!t.current.square)return;let{start:s}=t.sources.groups[e];t.current.holds(s)&&t.actions.set({target:s,node:null})}walk(t){this.pointAt(P(this.at===null?0:this.at+t,this.values.length),null),this.context?.actions.announce(this.words().join(", "))}paint(t,e,s,n,r,o,a){return Object.assign(this,{values:o,scale:a}),this.painted(t,e,s,n,r),K+bs}};var Yt=12,En=6,Xt=class{constructor(){this.answer=c("h1",{class:"answer"});this.facts=c("div",{class:"facts"});this.legend=c("p",{class:"legend"});this.picture=new Ct;this.strip=new Kt;this.gallery=c("div",{class:"gallery"});this.heats=[];this.sourceName=c("h2",{},"Source");this.targetName=c("h2",{},"Target");this.layers=new Jt;this.inList=c("table",{class:"ranked"});this.outList=c("table",{class:"ranked"});this.outName=c("h2",{});this.inName=c("h2",{});this.rest=c("p",{class:"quiet"});this.pointedSource=null;this.sourceText=new et("The text: choose a target",{choose:t=>this.choose(t,!0),point:(t,e)=>this.point(t,e,!0),close:t=>this.close(t)}),this.targetText=new et("The target side: choose a target",{choose:t=>this.choose(t,!1),point:(t,e)=>this.point(t,e,!1),close:t=>this.close(t)},!0),this.element=c("div",{class:"text-view"},this.answer,this.facts,c("div",{class:"columns"},c("div",{class:"main"},this.targetName,this.targetText.element,this.sourceName,this.picture.element,this.gallery,this.strip.element,this.sourceText.element,this.legend,this.layers.element),c("aside",{class:"side","aria-label":"Ranked sources"},this.inName,this.inList,this.rest,this.outName,this.outList)))}choose(t,e){let{context:s}=this,n=e?s.sources:s.targets,{start:r,stop:o,segment:a}=n.groups[t];if(a!==null){s.actions.set({open:[...s.state.open,a]});return}if(!(e&&!s.current.square)){for(let l=r;l<o;l++)if(s.current.holds(l)){s.actions.set({target:l,node:null}),s.actions.announce(this.sentence());return}}}find(t){let{segment:e,start:s}=this.context.sources.groups[t];e!==null&&this.choose(t,!0),this.sourceText.find(this.context.sources.of[s])}close(t){let e=this.context.state.open.filter(s=>s!==t);this.context.actions.set({open:e})}point(t,e,s){let{context:n}=this,r=!n.current.square,o=this.pointedSource;if(this.pointedSource=r&&s?t:null,this.pointedSource!==o&&this.shaded(),t===null){n.actions.tip(null,[]),n.actions.point(null);return}let a=s?n.sources:n.targets,{start:l,stop:h}=a.groups[t],u=!s||n.current.square,d=-1;for(let m=l;m<h&&d<0;m++)u&&n.current.holds(m)&&(d=m);let p=this.words(t,s);e?n.actions.tip(e,p):(s?this.sourceText:this.targetText).describe(t,p.join(". ")),n.actions.point(d<0?null:d)}words(t,e){let{context:s}=this,n=s.preview;s.preview=null;let r=(e?s.sources:s.targets).label(t),o=s.targets.label(s.targetGroup),a=[r];if(e){let l=s.incoming(),h=$(l,s.own).findIndex(u=>u.group===t);t===s.own?a.push(s.ownShare?`the target; ${v(l[t])} of it is its own`:"the target"):l[t]?a.push(`${v(l[t])} of ${o}${h>=0?`, number ${h+1}`:""}`):a.push(`nothing of it is in ${o}`)}return s.preview=n,a}update(t){this.context=t;let{current:e,sources:s,targets:n,payload:r}=t,o=!e.square;this.picture.element.hidden=!r.image,this.hang();let a=!!e.sources.seconds;this.strip.element.hidden=!a,this.targetName.hidden=!o,this.sourceName.hidden=!o||!!e.sources.segments?.[0]?.[2],this.targetText.element.hidden=!o,this.sourceText.show(s,t),this.sourceText.element.hidden=a||this.sourceText.isEmpty,o&&this.targetText.show(n,t),this.shaded(),this.layers.update(t)}hang(){let t=this.context.picturesOf(this.context.current.sources);t.every((e,s)=>e===this.heats[s]?.picture)&&t.length===this.heats.length||(this.heats=t.map(e=>new it(e)),this.gallery.replaceChildren(...this.heats.map(e=>e.element)))}heat(t){let{context:e}=this,{sources:s}=e,n=o=>{let{start:a,stop:l}=s.groups[s.of[o]];return t[s.of[o]]/(l-a)},r=St(this.heats,n);for(let o of this.heats)o.show(e,n,r)}pointed(t){this.context=t,this.shaded(),this.layers.update(t)}shaded(){let{context:t}=this,{own:e,sources:s,targets:n,targetGroup:r,current:o}=t,a=t.incoming(),l=S(a,e),h=t.preview===null;this.sourceText.shadeBy(t,a,l,e,h),o.square||this.shadeTargets(r,h),this.picture.show(t,a,l),this.heat(a),this.strip.show(t,a,l);let u=$(a,e);h&&(this.answer.replaceChildren(this.headline()),this.facts.replaceChildren(...gs(t))),this.inList.classList.toggle("long",t.state.unit==="segments"||!!t.payload.image||!!s.text.segments?.some(([,,b])=>b!==void 0)),this.fillLegend(l);let d=n.label(r);this.inName.replaceChildren("Where ",c("b",{},T(d))," comes from");let p=e>=0&&a[e]?[{group:e,value:a[e]}]:[];vs(this.inList,t,{order:u.slice(0,Yt),itself:p,scale:l,label:b=>s.placed(b),find:b=>this.find(b)});let m=Array.from(a).reduce((b,w)=>b+Math.abs(w),0),f=u.slice(Yt).reduce((b,w)=>b+Math.abs(w.value),0),g=[];u.length>Yt&&g.push(`${u.length-Yt} more sources: ${v(f)}`),!o.complete&&m<.9995&&g.push(`small shares left out of this page: ${v(1-m)}`),this.rest.textContent=g.join(" · "),this.goesTo(d)}shadeTargets(t,e){let{context:s,pointedSource:n}=this,{current:r,targets:o,sources:a}=s,l=n===null?new Float64Array(o.size):r.outgoing(s.choice,o,a,n),h=n===null?t:-1;this.targetText.shadeBy(s,l,S(l,-1),h,e)}goesTo(t){let{context:e}=this,{current:s,targets:n,targetGroup:r}=e,o=s.square&&s.held.length>1;if(this.outName.hidden=this.outList.hidden=!o,!o)return;let a=e.outgoing();this.outName.replaceChildren("Where ",c("b",{},T(t))," goes");let l=$(a,r).slice(0,En);this.outName.hidden=this.outList.hidden=l.length===0,vs(this.outList,e,{order:l,itself:[],scale:S(a,r),label:h=>n.label(h),find:h=>this.find(h)})}fillLegend(t){let{palette:e,current:s,payload:n}=this.context,r=n.image?"patch":s.sources.seconds?"frame":"word",o=r==="word"?"point at a word to follow it, click to keep it":s.square?`click a ${r} to follow it`:"point for numbers";this.legend.replaceChildren(c("span",{class:"outlined"},"target"),...Gt(e,t,s.entry.signed),c("span",{class:"quiet"},`share of the target · ${o}`))}most(){let{context:t}=this,{current:e}=t,{targets:s}=t,n=t.fine(e.sources),r=s.of[t.state.target],o=e.incoming(t.choice,s,r,n),a=e.square?n.of[t.state.target]:-1,l=$(o,a).slice(0,3);return{target:s.label(r),top:l.map(h=>[n.placed(h.group),h.value]),own:a<0||!t.ownShare?0:o[a]}}headline(){let{target:t,top:e,own:s}=this.most(),n=e.map(([r,o])=>[c("b",{},T(r)),` ${v(o)}`]);return c("span",{},c("b",{class:"outlined"},T(t)),e.length?` ${this.verb} `:" took nothing from other tokens",...kt(n),s?c("span",{class:"quiet"},` · ${v(s)} is its own`):null,...this.remarks().map(r=>c("span",{class:"quiet"},` · ${r}`)))}get verb(){return this.context.current.entry.explains_output?"depends most on":"took most from"}sentence(){let{target:t,top:e}=this.most(),s=this.remarks(),n=s.length?` (${s.join(", ")})`:"";return`${E(t)} ${this.verb} ${Ft(e)}${n}`}remarks(){let{context:t}=this,e=t.current.depths.length>1?[this.reading()]:[],s=t.preview;t.preview=null;let n=t.hiddenShare;return t.preview=s,n>0&&e.push(`${v(n)} is left out`),e}reading(){let{current:t,state:e}=this.context,s=t.depthName(e.depth),n=e.head===null?"":`, head ${e.head}`;return s[0].toLowerCase()+s.slice(1)+n}paint(t,e,s){let{palette:n,own:r,current:o}=e,a=e.incoming(),l=S(a,r);t.text(0,22,A(t,this.sentence(),17,s),{size:17,fill:n.ink,weight:600});let h=40;o.square||(h+=this.targetText.paint(t,e,0,h,s,new Float64Array(e.targets.size),1,e.targetGroup)+12),e.payload.image&&(h+=this.picture.paint(t,e,0,h,s,a,l)+12);for(let u of this.heats)h+=u.paint(t,0,h,s)+12;return o.sources.seconds?h+=this.strip.paint(t,e,0,h,s,a,l)+12:this.sourceText.isEmpty||(h+=this.sourceText.paint(t,e,0,h,s,a,l,r)+12),h+this.layers.paint(t,0,h,s)+8}rows(t){let e=t.incoming(),s=t.targets.label(t.targetGroup);return[["target","source","position","share","rank"],...$(e,-1).map(({group:n,value:r},o)=>[s,t.sources.label(n),String(t.sources.groups[n].start),r.toPrecision(4),String(o+1)])]}};function vs(i,t,e){let{order:s,itself:n,scale:r,label:o,find:a}=e,l=(m,f,g)=>c("tr",{class:g?"own":null},c("th",{scope:"row",dir:"auto"},f),c("td",{class:"bars"},ye(t,m,r,g?t.palette.quiet:void 0)),c("td",{},v(m))),[h,u]=["token","share"].map(m=>c("th",{scope:"col"},m)),d=m=>c("button",{type:"button",class:"source",title:`Find ${o(m)} in the text`,onclick:()=>a(m)},o(m)),p=s.map(m=>l(m.value,d(m.group),!1));p.push(...n.map(m=>l(m.value,"itself",!0))),i.replaceChildren(c("colgroup",{},c("col"),c("col"),c("col")),c("thead",{class:"unseen"},c("tr",{},h,c("td"),u)),c("tbody",{},...p))}var ws={answer:"Answer",text:"Text",map:"Map",heads:"Heads",flow:"Flow",compare:"Compare"},$n=1500,gt=class{constructor(t,e,s,n){this.root=t;this.linked=n;this.bar=c("header",{class:"bar-top"});this.tabs=c("div",{class:"tabs",role:"tablist","aria-label":"Views"});this.panel=c("div",{class:"panel",role:"tabpanel",tabindex:"-1"});this.notice=c("div",{class:"notice",role:"status"});this.foot=c("footer",{});this.tip=c("div",{class:"tip","aria-hidden":"true"});this.said=c("div",{class:"unseen","aria-live":"polite"});this.dark=window.matchMedia("(prefers-color-scheme: dark)");this.frame=0;this.printing=!1;t.classList.add("mixlens");let r=s&&Ie(s,e,o=>this.show(o));t.replaceChildren(...r?[r]:[],this.bar,this.tabs,this.notice,this.panel,this.foot,this.tip,this.said),this.dark.addEventListener("change",()=>this.update()),window.addEventListener("beforeprint",()=>this.print(!0)),window.addEventListener("afterprint",()=>this.print(!1)),new ResizeObserver(()=>this.soon()).observe(t),n&&window.addEventListener("hashchange",()=>{this.shown.length&&location.hash.slice(1)!==me(this.context.state,this.first)&&(this.context.state=this.sound(fe(location.hash,this.first)),this.update())}),this.show(e,!0)}show(t,e=!1){Xe(t),this.views={answer:new Pt,text:new Xt,map:new Bt,heads:new _t,flow:new Wt,compare:new jt};let s=this.context?.state.theme??"auto";this.context=new yt(t,{},{set:r=>this.set(r),point:r=>this.point(r),tip:(r,o)=>this.tipAt(r,o),announce:r=>{this.said.textContent=r}});let n=this.shown;this.tabs.replaceChildren(),this.tabs.hidden=n.length<2,this.notice.hidden=!t.maps.length,this.first=n.length?this.firstState(t,s):{theme:s},n.length?this.context.state=e&&this.linked?this.sound(fe(location.hash,this.first)):{...this.first}:this.context.state=this.first,this.update()}get shown(){let{payload:t,measured:e}=this.context,s={answer:()=>!!t.answer,text:()=>e.length>0,map:()=>e.some(n=>n.held.length>1),heads:()=>e.some(n=>n.heads>0),flow:()=>e.some(n=>n.canFlow),compare:()=>e.some((n,r)=>e.some((o,a)=>r<a&&n.targets===o.targets&&n.sources===o.sources))};return pe.filter(n=>s[n]())}withoutMaps(){let{payload:t,palette:e}=this.context;this.bar.replaceChildren(c("p",{class:"title"},t.title)),this.foot.replaceChildren(c("p",{},`mixlens ${t.mixlens}`)),this.panel.replaceChildren(t.ranking?ms(t.ranking,e):c("p",{class:"quiet"},"Type a text above and press Measure."))}firstState(t,e){let{measured:s}=this.context,n={method:0,part:"",follow:"words"};if(!s.length)return{view:"answer",...n,theme:e};let r=Math.max(0,t.maps.findIndex(p=>p.measure==="value_zeroing")),o=s[r].sources,a=(o.words??o.labels).length,l=o.words??s[r].targets.words,h=o.segments&&a>$n?"segments":l?"words":"tokens",u=t.start?.target??s[r].held[0]??0;return{view:this.shown.find(p=>p===t.start?.view)??"text",map:r,other:null,target:u,depth:s[r].defaultDepth,rows:"each",head:null,unit:h,threshold:.02,open:h==="segments"?this.strongest(s[r],u):[],node:null,hide:"none",...n,theme:e}}strongest(t,e){let s=new F(t.sources,"segments"),n=new F(t.targets,"tokens"),r={depth:t.defaultDepth,head:null},o=t.incoming(r,n,e,s);return $(o,-1).slice(0,2).map(a=>a.group)}sound(t){let e={...t},{measured:s,answer:n}=this.context;if(this.shown.includes(e.view)||(e.view=this.first.view),n&&(n.about.methods[e.method]||(e.method=0),n.isPart(e.part)||(e.part="")),!s.length)return e;s[e.map]||(e.map=this.first.map);let r=s[e.map];return r.depths.includes(e.depth)||(e.depth=r.defaultDepth),e.head!==null&&(typeof e.depth!="number"||!(e.head>=0&&e.head<r.heads))&&(e.head=null),r.holds(e.target)||(e.target=r.holds(this.first.target)?this.first.target:r.held[r.held.length-1]),e.unit==="segments"&&!r.sources.segments&&(e.unit=r.sources.words?"words":"tokens"),e.unit==="words"&&!r.sources.words&&!r.targets.words&&(e.unit="tokens"),e.other!==null&&!s[e.other]&&(e.other=null),e}set(t){let{context:e}=this;if(e.preview=null,e.state=this.sound({...e.state,...t}),this.linked){let s=me(e.state,this.first);history.replaceState(null,"",`${location.pathname}${location.search}${s?`#${s}`:""}`)}this.update(),this.tipAt(null,[])}point(t){this.context.preview!==t&&(this.context.preview=t,cancelAnimationFrame(this.frame),this.frame=requestAnimationFrame(()=>this.view.pointed?.(this.context)))}get view(){return this.views[this.context.state.view]}soon(){cancelAnimationFrame(this.frame),this.frame=requestAnimationFrame(()=>this.update())}print(t){this.printing=t,this.update()}paint(){let{theme:t}=this.context.state,e=!this.printing&&(t==="dark"||t==="auto"&&this.dark.matches);this.context.palette=this.printing?Ce:e?Ae:Y,this.root.dataset.theme=e?"dark":"light",this.linked&&(document.documentElement.dataset.theme=e?"dark":"light")}update(){if(this.paint(),!this.shown.length)return this.withoutMaps();this.context.leaveOut(),this.choices(),this.tabBar(),this.fillNotice();let{element:t}=this.view;this.panel.firstChild!==t&&this.panel.replaceChildren(t),this.view.update(this.context);let e=this.context.state.view==="answer"?Fe:je;this.foot.replaceChildren(...e(this.context))}choices(){let t=this.context.state.view==="answer"?this.answerFields():this.mapFields(),e=this.root.getRootNode().activeElement,s=e&&this.bar.contains(e)?[...this.bar.querySelectorAll("select, button, summary")].indexOf(e):-1;this.bar.replaceChildren(...t,c("span",{class:"push"}),this.themeButton(),Ye(()=>this.view,this.context,this.linked)),s>=0&&this.bar.querySelectorAll("select, button, summary")[s]?.focus()}answerFields(){let{state:t,answer:e}=this.context;return[z("Method",e.about.methods.map(({name:s},n)=>[String(n),s]),String(t.method),s=>this.set({method:Number(s)})),z("Point at",[["words","Words"],["sentences","Sentences"]],t.follow,s=>this.set({follow:s}))]}mapFields(){let{context:t}=this,{state:e,measured:s,current:n}=t,r=[z("Measure",s.map((u,d)=>[String(d),t.name(u)]),String(e.map),u=>this.set({map:Number(u),head:null}))];n.depths.length>1&&r.push(z("Layer",n.depths.map(u=>[String(u),n.depthName(u),n.upTo.length?An(u):void 0]),String(e.depth),u=>this.set({depth:xt(u)}))),n.heads&&typeof e.depth=="number"&&r.push(z("Head",[["","whole layer"],...Array.from({length:n.heads},(u,d)=>[String(d),String(d)])],e.head===null?"":String(e.head),u=>this.set({head:u===""?null:Number(u)})));let{words:o,segments:a}=n.sources,l=[["tokens","Tokens"]];(o||n.targets.words)&&l.unshift(["words","Words"]),a&&l.push(["segments","Segments"]),l.length>1&&r.push(z("By",l,e.unit,u=>this.set({unit:u,node:null})));let h=ae(n,this.context.documents);return h.length>1&&e.view!=="flow"&&r.push(z("Leave out",h,e.hide,u=>this.set({hide:u}))),r}fillNotice(){let{context:t}=this,{current:e,state:s}=t;if(this.notice.hidden=!0,s.view==="answer")return;let n=e.warningAt(s.depth),r=t.alike();if(n===null&&!r)return;this.notice.hidden=!1;let o=n??`All targets have nearly the same sources here: they differ by ${v(r.distance)} from their mean. These numbers say little about a single target.`,a=[],l=(h,u)=>a.push(c("button",{type:"button",class:"link",onclick:()=>this.set(u)},h));s.depth!=="mean"&&e.depths.includes("mean")&&l("Show the mean of layers",{depth:"mean"}),r&&ze(r)&&ae(e,this.context.documents).some(([h])=>h==="first")&&l("Leave out the first token",{hide:"first"}),this.notice.replaceChildren(c("span",{},`${o} `),...a.flatMap(h=>[h," "]))}themeButton(){let t=this.context.palette.dark;return c("button",{type:"button",class:"plain","aria-label":t?"Light colours":"Dark colours",onclick:()=>this.set({theme:t?"light":"dark"})},t?"☀":"☾")}tabBar(){let{state:t}=this.context;if(!this.tabs.children.length)for(let e of this.shown)this.tabs.append(c("button",{type:"button",role:"tab","data-view":e,onclick:()=>this.set({view:e}),onkeydown:s=>this.tabKey(s)},ws[e]));for(let e of this.tabs.children){let s=e.dataset.view===t.view;e.setAttribute("aria-selected",String(s)),e.tabIndex=s?0:-1}this.panel.setAttribute("aria-label",ws[t.view])}tabKey(t){let e={ArrowLeft:-1,ArrowRight:1}[t.key];if(!e)return;t.preventDefault();let{shown:s}=this,n=(s.indexOf(this.context.state.view)+e+s.length)%s.length;this.set({view:s[n]}),this.tabs.children[n].focus()}tipAt(t,e){let{tip:s}=this;if(s.classList.toggle("on",!!(t&&e.length)),!t||!e.length)return;s.replaceChildren(...e.map((h,u)=>c(u?"div":"b",{dir:"auto"},h)));let{clientX:n,clientY:r}=t,o=s.offsetWidth,a=s.offsetHeight;s.style.left=`${Math.max(4,Math.min(n+14,window.innerWidth-o-8))}px`;let l=r+18+a<=window.innerHeight;s.style.top=`${l?r+18:r-a-12}px`}};function An(i){return typeof i=="number"?"One layer":W(i)===null?"All layers":"Layers up to one"}var Cn=i=>new Promise(t=>setTimeout(t,i)),Zt=class{constructor(t){this.api=t;this.job=null}async ask(t,e={}){let s=await fetch(this.api+t,e);if(s.status===204)return;let n=await s.json().catch(()=>null);if(!s.ok)throw new Error(typeof n?.detail=="string"?n.detail:`The server answered ${s.status}.`);return n}choices(){return this.ask("")}async run(t,e){let s="messages"in t?"/answers":"/jobs",{id:n}=await this.ask(s,{method:"POST",headers:{"Content-Type":"application/json"},body:JSON.stringify(t)});this.job=n;for(let r=80;;r=Math.min(1e3,r*1.3)){let o=await this.ask(`/jobs/${n}`);if(o.state==="done")break;if(o.state==="failed"||o.state==="cancelled")throw new Error(o.message||o.state);e(o.progress,o.message||o.state),await Cn(r)}return this.job=null,this.ask(`/jobs/${n}/payload`)}cancel(){this.job&&this.ask(`/jobs/${this.job}`,{method:"DELETE"}).catch(()=>{})}};var xs=`html {
  color-scheme: light dark;
}
html[data-theme="light"] {
  color-scheme: light;
  background: #fff;
}
html[data-theme="dark"] {
  color-scheme: dark;
  background: #101316;
}
body {
  margin: 0;
}
.mixlens {
  --paper: #ffffff;
  --ink: #16191d;
  --quiet: #59626d;
  --line: #dfe3e8;
  --band: #f4f6f8;
  --mark: #1a66ad;
  --wrong: #a33a00;
  box-sizing: border-box;
  max-width: 1180px;
  margin: 0 auto;
  padding: 14px 24px 28px;
  background: var(--paper);
  color: var(--ink);
  font:
    15px/1.5 system-ui,
    -apple-system,
    "Segoe UI",
    Roboto,
    "Helvetica Neue",
    "Noto Sans",
    Arial,
    sans-serif;
  font-variant-numeric: tabular-nums;
}
.mixlens[data-theme="dark"] {
  --paper: #101316;
  --ink: #e8ebef;
  --quiet: #a0a9b4;
  --line: #2c333b;
  --band: #191e23;
  --mark: #7cbcf5;
  --wrong: #f0a36b;
}
.mixlens *,
.mixlens *::before {
  box-sizing: border-box;
}
.mixlens [hidden] {
  display: none !important;
}
.mixlens h1,
.mixlens h2,
.mixlens p {
  margin: 0;
}
.mixlens h2 {
  font-size: 13px;
  font-weight: 600;
  color: var(--quiet);
  margin: 22px 0 8px;
}
.quiet {
  color: var(--quiet);
  font-weight: 400;
}
.unseen {
  position: absolute;
  width: 1px;
  height: 1px;
  overflow: hidden;
  clip-path: inset(50%);
  white-space: nowrap;
}
.mixlens :focus-visible {
  outline: 2px solid var(--mark);
  outline-offset: 2px;
  border-radius: 4px;
}

/* the bar and the tabs */
.bar-top {
  display: flex;
  flex-wrap: wrap;
  gap: 8px 18px;
  align-items: center;
}
.bar-top .title {
  font-weight: 600;
}
.push {
  flex: 1;
}
.field {
  display: inline-flex;
  gap: 7px;
  align-items: center;
}
.field > span {
  color: var(--quiet);
  font-size: 13px;
}
.mixlens select,
.mixlens button,
.mixlens textarea,
.menu > summary {
  font: inherit;
  font-size: 14px;
  color: inherit;
  background: var(--paper);
  border: 1px solid var(--line);
  border-radius: 7px;
  padding: 4px 9px;
}
.mixlens select {
  max-width: 17em;
  padding-right: 4px;
}
.mixlens button,
.menu > summary,
.behind > summary {
  cursor: pointer;
}
.mixlens button:hover,
.menu > summary:hover {
  background: var(--band);
}
.mixlens button.plain {
  border-color: transparent;
  font-size: 16px;
  line-height: 1;
  padding: 6px 8px;
}
.mixlens button.primary {
  background: var(--ink);
  color: var(--paper);
  border-color: var(--ink);
}
.menu {
  position: relative;
}
.menu > summary {
  list-style: none;
}
.menu > summary::-webkit-details-marker {
  display: none;
}
.menu > div {
  position: absolute;
  right: 0;
  top: calc(100% + 6px);
  z-index: 5;
  min-width: 13em;
  padding: 5px;
  display: grid;
  background: var(--paper);
  border: 1px solid var(--line);
  border-radius: 10px;
  box-shadow: 0 8px 28px rgb(0 0 0 / 0.16);
}
.mixlens .menu > div button {
  border: 0;
  text-align: left;
  padding: 7px 10px;
}
.tabs {
  display: flex;
  gap: 4px;
  margin: 14px 0 18px;
  border-bottom: 1px solid var(--line);
  overflow-x: auto;
  scrollbar-width: thin;
}
.mixlens .tabs button {
  border: 0;
  border-radius: 6px 6px 0 0;
  padding: 7px 13px;
  color: var(--quiet);
  border-bottom: 2px solid transparent;
  background: none;
}
.mixlens .tabs button[aria-selected="true"] {
  color: var(--ink);
  font-weight: 600;
  border-bottom-color: var(--ink);
}
.panel:focus {
  outline: none;
}
.bar-line {
  display: flex;
  flex-wrap: wrap;
  gap: 8px 20px;
  align-items: center;
  justify-content: space-between;
  margin-bottom: 12px;
}
.bar-line > p {
  flex: 1 1 24em;
}
.field output {
  min-width: 3.6em;
  font-size: 13px;
}
input[type="range"] {
  accent-color: var(--mark);
}

/* the first screen */
.answer {
  font-size: 21px;
  line-height: 1.45;
  font-weight: 400;
  letter-spacing: -0.005em;
  max-width: 46em;
}
.compare-view > .answer,
.ranking-view > .answer {
  margin-bottom: 16px !important;
}
.answer b,
.facts b,
.mixlens h2 b {
  font-weight: 650;
  color: var(--ink);
  overflow-wrap: anywhere;
  unicode-bidi: isolate;
}
.facts {
  margin: 6px 0 22px;
  color: var(--quiet);
}
.mixlens button.link {
  border: 0;
  padding: 0;
  background: none;
  color: var(--mark);
  font-size: inherit;
  text-decoration: underline;
  text-underline-offset: 3px;
}
.notice {
  margin: 12px 0;
  padding: 8px 12px;
  border: 1px solid var(--wrong);
  border-radius: 7px;
  background: var(--band);
}
.mixlens button.source {
  border: 0;
  padding: 0;
  background: none;
  font-size: inherit;
  max-width: 100%;
  overflow: hidden;
  text-overflow: ellipsis;
  white-space: nowrap;
  vertical-align: bottom;
  text-align: inherit;
}
.mixlens button.source:hover {
  text-decoration: underline;
  text-underline-offset: 3px;
}
.hint {
  font-size: 13px;
  margin: -4px 0 8px !important;
}
.ranking-view .hint {
  margin: 14px 0 8px !important;
}
.layers-head {
  display: flex;
  flex-wrap: wrap;
  gap: 0 16px;
  align-items: baseline;
  justify-content: space-between;
}
.mixlens .layers-head h2 {
  margin-top: 0;
}
.mixlens button.turn {
  border: 0;
  padding: 2px 0;
  background: none;
  color: var(--mark);
  font-size: 13px;
}
.mixlens button.turn:hover {
  text-decoration: underline;
  text-underline-offset: 3px;
}
.ranked col:first-child {
  width: 42%;
}
.ranked.long col:first-child {
  width: 62%;
}
.ranked col:last-child {
  width: 62px;
}
.strip {
  margin: 0;
}
.outlined {
  border: 2px solid var(--ink);
  border-radius: 6px;
  padding: 0 5px;
}
.columns {
  display: grid;
  grid-template-columns: minmax(0, 1fr) 300px;
  gap: 14px 44px;
  align-items: start;
}
.side h2:first-child,
.main > h2:first-child {
  margin-top: 0;
}
.reading {
  line-height: 1.85;
  overflow-wrap: anywhere;
}
.reading[data-size="large"] {
  font-size: 25px;
}
.reading[data-size="middle"] {
  font-size: 19px;
}
.reading[data-size="small"] {
  font-size: 15px;
  max-height: 62vh;
  overflow-y: auto;
}
.reading[data-size="tiny"] {
  font-size: 13px;
  max-height: 62vh;
  overflow-y: auto;
  line-height: 1.7;
}
.token {
  padding: 0.12em 0.2em;
  margin: 0 -0.02em;
  border-radius: 0.24em;
  cursor: pointer;
  unicode-bidi: isolate;
  border: 2px solid transparent;
  background-clip: border-box;
  -webkit-box-decoration-break: clone;
  box-decoration-break: clone;
}
.token.special {
  color: var(--quiet);
  font-size: 0.72em;
  margin-inline: 0.3em;
}
.token.special:first-child {
  margin-inline-start: 0;
}
.token.found {
  animation: found 1.6s ease-out;
}
@keyframes found {
  0%,
  40% {
    outline: 3px solid var(--mark);
    outline-offset: 2px;
  }
  100% {
    outline: 3px solid transparent;
    outline-offset: 2px;
  }
}
@media (prefers-reduced-motion: reduce) {
  .token.found {
    outline: 3px solid var(--mark);
  }
}
.token.left-out {
  color: var(--quiet);
  text-decoration: line-through;
}
.token:hover {
  border-color: var(--line);
}
.token.target {
  border-color: var(--ink);
  color: var(--ink);
}
.token.target.pointed {
  border-style: dashed;
}
.token.segment {
  display: block;
  margin: 3px 0;
  padding: 5px 10px;
}
.token.segment::before {
  content: "▸ ";
  opacity: 0.7;
}
.token.segment small {
  margin-inline-start: 0.8em;
  font-size: 0.8em;
}
.token.segment small:last-child {
  float: inline-end;
}
.legend {
  display: flex;
  flex-wrap: wrap;
  gap: 6px 9px;
  align-items: center;
  font-size: 13px;
  margin: 16px 0 22px !important;
}
.legend .outlined {
  border-width: 1.5px;
  font-size: 12px;
  line-height: 1.35;
  margin-right: 8px;
}
.legend .quiet {
  margin-left: 8px;
}
.ramp {
  width: 90px;
  height: 10px;
  border-radius: 3px;
}
.picture {
  margin: 0;
}
.mixlens canvas {
  display: block;
  max-width: none;
}
.ranked {
  width: 100%;
  border-collapse: collapse;
  table-layout: fixed;
}
.ranked th {
  text-align: left;
  font-weight: 400;
  overflow: hidden;
  text-overflow: ellipsis;
  white-space: nowrap;
}
.ranked td,
.ranked th {
  padding: 3px 0;
}
.ranked td:last-child {
  text-align: right;
  white-space: nowrap;
}
.ranked .bars {
  padding: 0 8px;
}
.bar {
  display: block;
  height: 10px;
  border-radius: 2px;
  min-width: 1px;
}
.ranked .own th,
.ranked .own td {
  color: var(--quiet);
  padding-top: 9px;
}
.side > .quiet {
  font-size: 13px;
  margin-top: 6px;
}

/* tables behind pictures */
.behind {
  margin: 10px 0 0;
  font-size: 13px;
}
.behind > summary {
  color: var(--quiet);
  width: max-content;
  max-width: 100%;
}
.wide {
  overflow: auto;
  max-height: 60vh;
}
.wide table {
  border-collapse: collapse;
}
.wide th,
.wide td {
  padding: 3px 9px;
  text-align: right;
  white-space: nowrap;
  font-weight: 400;
}
.wide th[scope="row"] {
  text-align: left;
  position: sticky;
  left: 0;
  background: var(--paper);
}
.wide thead th {
  border-bottom: 1px solid var(--line);
}
.wide caption {
  text-align: left;
  padding-bottom: 6px;
  font-size: 13px;
}

/* the other views */
.map-view > .legend {
  margin: 0 0 12px !important;
}
.scroller {
  position: relative;
  overflow: auto;
}
.scroller > canvas {
  position: sticky;
  left: 0;
  top: 0;
  margin-bottom: -100%;
}
.spacer {
  position: absolute;
  left: 0;
  top: 0;
  pointer-events: none;
}
.pair-choices {
  display: flex;
  flex-wrap: wrap;
  gap: 10px 20px;
  margin-bottom: 8px;
}
.pair {
  display: grid;
  grid-template-columns: 1fr 1fr;
  gap: 10px 40px;
}
.pair .reading[data-size="large"] {
  font-size: 20px;
}
.pair .reading[data-size="middle"] {
  font-size: 16px;
}
.pair-side h2 {
  margin-top: 8px;
  color: var(--ink);
}
.pair-side > p {
  font-size: 13px;
  margin-top: 8px;
}
.compare-view.alone > :not(.answer, .pair-choices) {
  display: none;
}
.disputes {
  border-collapse: collapse;
  width: 100%;
  max-width: 860px;
}
.disputes .bars {
  width: 22%;
}
.disputes td.number {
  width: 5em;
}
.disputes td.place {
  width: 5.5em;
  color: var(--quiet);
}
.disputes th,
.disputes td {
  padding: 4px 8px 4px 0;
  font-weight: 400;
  text-align: left;
}
.disputes thead th {
  color: var(--quiet);
  font-size: 13px;
  overflow: hidden;
  text-overflow: ellipsis;
}
.disputes td {
  font-size: 14px;
  white-space: nowrap;
}
.disputes tbody th {
  font-weight: 600;
  max-width: 12em;
  overflow: hidden;
  text-overflow: ellipsis;
  white-space: nowrap;
}
.wide.matrix {
  max-height: none;
}
.matrix table {
  font-size: 13px;
  table-layout: fixed;
  width: 100%;
  max-width: 1000px;
}
.matrix td,
.matrix th[scope="col"] {
  padding: 3px 0;
  text-align: center;
  overflow: hidden;
}
.matrix thead td,
.matrix th[scope="row"] {
  width: 14.5em;
  padding-left: 0;
  overflow: hidden;
  text-overflow: ellipsis;
}
.matrix b {
  display: inline-block;
  width: 1.3em;
}
.members {
  margin: 4px 0 0 !important;
  font-size: 13px;
}
@container (max-width: 800px) {
  .matrix td span {
    display: none;
  }
  .matrix td {
    height: 22px;
  }
  .matrix thead td,
  .matrix th[scope="row"] {
    width: 38%;
  }
}
.matrix .same {
  text-align: center;
  color: var(--quiet);
}
.ranking-view p {
  margin: 0 0 8px;
  max-width: 60em;
}
.ranks {
  font-size: 14px;
}
.ranks th small {
  display: block;
  color: var(--quiet);
  font-size: 11px;
}
.ranks .best {
  font-weight: 700;
}
.ranks .luck,
.ranks .baseline {
  font-style: italic;
}
.ranks .luck {
  color: var(--quiet);
}
.scale {
  display: block;
  position: relative;
  height: 8px;
  min-width: 74px;
  margin: 0 4px;
}
.interval {
  position: absolute;
  top: 3.5px;
  height: 1px;
  background: var(--quiet);
}
.dot {
  position: absolute;
  top: 1px;
  width: 6px;
  height: 6px;
  margin-left: -3px;
  border-radius: 3px;
}
.mixlens dt {
  font-weight: 600;
  margin-top: 8px;
}
.mixlens dd {
  margin: 0 0 0 1.2em;
  color: var(--quiet);
  overflow-wrap: anywhere;
}
.mixlens footer {
  margin-top: 30px;
  padding-top: 12px;
  border-top: 1px solid var(--line);
  color: var(--quiet);
  font-size: 12.5px;
  overflow-wrap: anywhere;
}
.tip {
  position: fixed;
  z-index: 9;
  left: 0;
  top: 0;
  max-width: 26em;
  padding: 6px 10px;
  border-radius: 8px;
  background: var(--ink);
  color: var(--paper);
  font-size: 13px;
  line-height: 1.4;
  pointer-events: none;
  opacity: 0;
  box-shadow: 0 4px 16px rgb(0 0 0 / 0.25);
  overflow-wrap: anywhere;
}
.tip.on {
  opacity: 1;
}

/* a server or a kernel behind the page */
.live {
  display: grid;
  gap: 8px;
  margin-bottom: 14px;
  padding-bottom: 14px;
  border-bottom: 1px solid var(--line);
}
.live textarea {
  width: 100%;
  resize: vertical;
  font-size: 16px;
  padding: 8px 10px;
}
.live-line {
  display: flex;
  flex-wrap: wrap;
  gap: 8px 14px;
  align-items: center;
}
.live .behind {
  margin: 0;
}
.live-part {
  display: grid;
  gap: 8px;
}
.live-head {
  display: flex;
  gap: 14px;
  align-items: center;
}
.mixlens .live-head h2 {
  margin: 0;
}
.mixlens .live-head button {
  font-size: 13px;
  padding: 2px 8px;
}
.kinds-of-job {
  display: flex;
  gap: 6px;
}
.mixlens .kinds-of-job button[aria-pressed="true"] {
  border-color: var(--ink);
  font-weight: 600;
}
.papers {
  display: grid;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 340px), 1fr));
  gap: 8px 16px;
}
.paper {
  display: grid;
  grid-template-columns: minmax(0, 1fr) auto;
  gap: 2px 4px;
}
.paper textarea {
  grid-column: 1 / -1;
}
.mixlens .live input[type="text"],
.mixlens .live input[type="number"] {
  font: inherit;
  font-size: 14px;
  color: inherit;
  background: var(--paper);
  border: 1px solid var(--line);
  border-radius: 7px;
  padding: 4px 9px;
}
.mixlens .paper input[type="text"] {
  border-color: transparent;
  padding-left: 0;
  font-weight: 600;
}
.mixlens .live input[type="number"] {
  width: 6em;
}
.mixlens .paper textarea,
.turn-row textarea {
  font-size: 15px;
}
.turns {
  display: grid;
  gap: 8px;
}
.turn-row {
  display: grid;
  grid-template-columns: auto minmax(0, 1fr) auto;
  gap: 6px;
  align-items: start;
}
.turn-row:only-child {
  grid-template-columns: minmax(0, 1fr);
}
.turn-row:only-child select,
.turn-row:only-child button {
  display: none;
}
.live .behind > *:not(summary) {
  margin-top: 8px;
}
.checks {
  border: 0;
  padding: 6px 0;
  margin: 0;
  display: grid;
  grid-template-columns: repeat(auto-fill, minmax(15em, 1fr));
}
.checks legend {
  padding: 0;
}
.wrong {
  color: var(--wrong);
}

/* an answer next to the documents */
.answer-view > .facts {
  margin: 4px 0 16px;
}
.answer-columns {
  display: grid;
  grid-template: "answer documents" auto "details documents" 1fr / minmax(0, 5fr) minmax(0, 6fr);
  gap: 0 40px;
  align-items: start;
}
.answer-side {
  grid-area: answer;
}
.details-side {
  grid-area: details;
}
.documents-side {
  grid-area: documents;
  position: sticky;
  top: 10px;
}
.answer-side > h2:first-child,
.documents-head h2 {
  margin-top: 0;
}
.answer-text {
  font-size: 20px;
  line-height: 1.75;
  overflow-wrap: anywhere;
  white-space: pre-wrap;
}
.answer-text .token {
  padding: 0;
  margin: 0;
  border: 0;
  border-radius: 3px;
}
.answer-text .token:hover {
  background: var(--band);
}
.answer-text .token.target {
  outline: 2px solid var(--ink);
  outline-offset: 2px;
}
.answer-text .token.target.pointed {
  outline-style: dashed;
}
.answer-text .token.target.of-sentence {
  outline: none;
  background: var(--band);
  text-decoration: underline 2px;
  text-underline-offset: 5px;
}
.answer-text .token.target.of-sentence.pointed {
  text-decoration-style: dashed;
}
.answer-text.long {
  font-size: 16px;
  max-height: 44vh;
  overflow-y: auto;
  padding: 2px 4px;
  margin: 0 -4px;
}
.cites {
  margin: 0 2px 0 4px;
  color: var(--mark);
  font-size: 0.66em;
  vertical-align: 0.4em;
  white-space: nowrap;
  cursor: pointer;
}
.cites:hover {
  text-decoration: underline;
  text-underline-offset: 3px;
}
.kinds {
  display: flex;
  height: 8px;
  margin-top: 18px;
  border-radius: 4px;
  overflow: hidden;
  gap: 1px;
}
.mixlens .kinds-legend {
  gap: 2px 14px;
  margin: 8px 0 0 !important;
}
.kinds-legend i {
  display: inline-block;
  width: 9px;
  height: 9px;
  margin-right: 5px;
  border-radius: 2px;
}
.legend.kinds-legend .quiet {
  margin-left: 0;
}
.cited {
  margin: 0;
  padding: 0;
  list-style: none;
}
.cited li + li {
  margin-top: 4px;
}
.mixlens button.passage-link {
  display: block;
  width: calc(100% + 16px);
  border: 0;
  padding: 6px 8px;
  margin: 0 -8px;
  background: none;
  text-align: start;
}
.mixlens button.passage-link:hover {
  background: var(--band);
}
.passage-head {
  display: flex;
  justify-content: space-between;
  gap: 12px;
}
.passage-head b {
  font-weight: 600;
}
.passage-text {
  display: -webkit-box;
  -webkit-box-orient: vertical;
  -webkit-line-clamp: 2;
  line-clamp: 2;
  overflow: hidden;
  overflow-wrap: anywhere;
}
.cited .bar {
  height: 3px;
}
.methods {
  width: 100%;
  border-collapse: collapse;
}
.methods th,
.methods td {
  padding: 3px 8px 3px 0;
  font-weight: 400;
  text-align: left;
}
.methods td:last-child {
  padding-right: 0;
  text-align: right;
}
.methods .chosen th,
.methods .chosen td {
  font-weight: 650;
}
.mixlens .methods button.source {
  font-weight: inherit;
}
.documents-head {
  display: flex;
  justify-content: space-between;
  align-items: baseline;
  gap: 16px;
}
.documents-head label {
  color: var(--quiet);
  font-size: 13px;
}
.documents-frame {
  position: relative;
}
.documents {
  max-height: max(420px, calc(100vh - 230px));
  overflow-y: auto;
  padding: 0 30px 0 14px;
  border: 1px solid var(--line);
  border-radius: 10px;
}
.document {
  content-visibility: auto;
  contain-intrinsic-size: auto 160px;
  padding: 12px 0;
}
.document:not(.other) ~ .document,
.documents.all .document ~ .document {
  border-top: 1px solid var(--line);
}
.document.other {
  display: none;
  color: var(--quiet);
}
.documents.all .document.other {
  display: block;
}
.document h3 {
  display: flex;
  align-items: center;
  gap: 10px;
  margin: 0 0 4px;
  font-size: 13px;
  font-weight: 650;
  overflow-wrap: anywhere;
}
.badge {
  font-weight: 400;
  color: var(--quiet);
}
.mixlens .document p {
  line-height: 1.65;
  white-space: pre-wrap;
  overflow-wrap: anywhere;
}
.passage,
.word {
  border-radius: 3px;
  -webkit-box-decoration-break: clone;
  box-decoration-break: clone;
}
.passage.found {
  animation: found 1.6s ease-out;
}
.heat {
  margin: 4px 0 0;
}
.gallery {
  display: flex;
  flex-wrap: wrap;
  gap: 12px 20px;
  align-items: start;
}
.gallery:not(:empty) {
  margin-bottom: 16px;
}
.heat canvas {
  border-radius: 4px;
}
.heat figcaption {
  margin-top: 4px;
  color: var(--quiet);
  font-size: 13px;
}
.minimap {
  position: absolute;
  top: 6px;
  bottom: 6px;
  right: 5px;
  width: 14px;
  border-radius: 4px;
  background: var(--band);
  cursor: pointer;
  overflow: hidden;
}
.minimap .edge {
  position: absolute;
  left: 0;
  width: 100%;
  height: 1px;
  background: var(--line);
}
.minimap-marks span {
  position: absolute;
  left: 2px;
  right: 2px;
  height: 4px;
  border-radius: 2px;
}
.minimap-window {
  position: absolute;
  left: 0;
  right: 0;
  min-height: 8px;
  border: 1.5px solid var(--quiet);
  border-radius: 4px;
  opacity: 0.7;
}
.documents::-webkit-scrollbar {
  width: 0;
}
.documents {
  scrollbar-width: none;
}
@container (max-width: 800px) {
  .answer-columns {
    grid-template: "answer" auto "documents" auto "details" auto / minmax(0, 1fr);
  }
  .documents-side {
    position: static;
    margin-top: 20px;
  }
  .documents {
    max-height: 60vh;
  }
  .answer-text {
    font-size: 18px;
  }
}

/* By the room that the view has, not the window: a widget may be in a narrow cell. */
.panel {
  container-type: inline-size;
}
@media (max-width: 860px) {
  .mixlens {
    padding: 12px 14px 20px;
  }
}
@media (max-width: 460px) {
  .bar-top select {
    max-width: 10.5em;
  }
  .bar-top {
    gap: 8px 10px;
  }
}
@container (max-width: 800px) {
  .columns,
  .pair {
    grid-template-columns: minmax(0, 1fr);
  }
  .reading[data-size="large"] {
    font-size: 21px;
  }
  .answer {
    font-size: 18px;
  }
}
.fold,
.segment-name {
  display: block;
  color: var(--quiet);
  font-size: 12.5px;
  font-weight: 600;
  line-height: 1.6;
  margin-top: 10px;
}
.fold {
  cursor: pointer;
}
.segment-name:first-child,
.fold:first-child {
  margin-top: 0;
}
@container (max-width: 560px) {
  .disputes .bars {
    width: 0;
    padding: 0;
  }
  .disputes .bar,
  .disputes .place {
    display: none;
  }
}
.ranks thead th:first-child {
  text-align: left;
}

/* on paper: shades are kept, nothing scrolls, and controls are left out */
.mixlens {
  -webkit-print-color-adjust: exact;
  print-color-adjust: exact;
}
@media print {
  .tabs,
  .tip,
  .minimap,
  .documents-head label,
  .menu,
  .live,
  .mixlens button.plain,
  .mixlens button.turn,
  .mixlens button.link,
  .mixlens details.behind {
    display: none;
  }
  .mixlens {
    max-width: none;
    padding: 0;
  }
  .bar-top {
    margin-bottom: 12px;
  }
  .reading,
  .answer-text.long,
  .documents,
  .wide {
    max-height: none;
    overflow: visible;
  }
  .document {
    content-visibility: visible;
  }
  .documents-side {
    position: static;
  }
  .mixlens canvas {
    max-width: 100%;
    height: auto !important;
  }
  .mixlens section,
  .mixlens tr {
    break-inside: avoid;
  }
}
`;function ks(i){let t=new CSSStyleSheet;t.replaceSync(xs),i.adoptedStyleSheets=[...i.adoptedStyleSheets,t]}function Ms(i,t){try{t()}catch(e){i.replaceChildren(c("p",{role:"alert"},`This view cannot be shown: ${e.message}`))}}var ys=typeof document>"u"?null:document.getElementById("payload"),Te=typeof document>"u"?null:document.getElementById("view");if(ys&&Te){ks(document);let i=JSON.parse(ys.textContent??"null"),t=location.protocol!=="about:";Ms(Te,()=>new gt(Te,i,i.live?new Zt(i.live.api):null,t))}var Ee=class{constructor(t){this.model=t;this.running=0}choices(){return Promise.resolve(this.model.get("choices"))}run(t){let e=++this.running;return new Promise((s,n)=>{let r=()=>{let o=this.model.get("answer");o.number===e&&(this.model.off("change:answer",r),o.payload?s(o.payload):n(new Error(o.error??"The kernel gave no answer.")))};this.model.on("change:answer",r),this.model.set("job",{...t,number:e}),this.model.save_changes()})}cancel(){}};function Ln({model:i,el:t}){let e=t.attachShadow({mode:"open"});ks(e);let s=c("div");e.append(s),Ms(s,()=>new gt(s,i.get("payload"),new Ee(i),!1))}return Ps(Pn);})();
