/* mixlens viewer, built from web/ 3d1ad93adf89a06c010b2f5e851e833ab49b7f87f9b7066bce608b3fe2e8460a */
"use strict";var mixlensViewer=(()=>{var Qe=Object.defineProperty;var $s=Object.getOwnPropertyDescriptor;var As=Object.getOwnPropertyNames;var Cs=Object.prototype.hasOwnProperty;var Ss=(o,e)=>{for(var t in e)Qe(o,t,{get:e[t],enumerable:!0})},Ls=(o,e,t,s)=>{if(e&&typeof e=="object"||typeof e=="function")for(let n of As(e))!Cs.call(o,n)&&n!==t&&Qe(o,n,{get:()=>e[n],enumerable:!(s=$s(e,n))||s.enumerable});return o};var Ps=o=>Ls(Qe({},"__esModule",{value:!0}),o);var Pn={};Ss(Pn,{render:()=>Ln});var se=o=>[Number.parseInt(o.slice(1,3),16),Number.parseInt(o.slice(3,5),16),Number.parseInt(o.slice(5,7),16)],Y={dark:!1,paper:"#ffffff",ink:"#16191d",quiet:"#59626d",line:"#dfe3e8",band:"#f4f6f8",plus:["#f6f8fb","#cfe1f4","#9cc4ea","#5f9fdb","#2a74bd","#0b4586"].map(se),minus:["#fbf8f5","#fbdfc8","#f5b988","#e58b43","#bf5f14","#803604"].map(se)},At={dark:!0,paper:"#101316",ink:"#e8ebef",quiet:"#a0a9b4",line:"#2c333b",band:"#191e23",plus:["#181c21","#14324f","#1a517f","#2f7ab8","#62a9e0","#b4daf8"].map(se),minus:["#1e1b18","#452811","#754015","#ad611f","#e08a40","#fcc797"].map(se)},Ct={...Y,plus:["#f8fafc","#e2edf8","#c9def3","#aecdee","#8cb9e6","#659fda"].map(se),minus:["#fdfaf7","#fcead9","#f9d6b8","#f3be92","#eba468","#dd8a44"].map(se)};function Os(o,e){let t=Math.min(1,Math.max(0,e))*(o.length-1),s=Math.min(Math.floor(t),o.length-2),n=t-s,[r,i]=[o[s],o[s+1]];return[0,1,2].map(a=>Math.round(r[a]+(i[a]-r[a])*n))}function x(o,e){return Os(e<0?o.minus:o.plus,Math.abs(e))}var k=([o,e,t])=>`rgb(${o}, ${e}, ${t})`;function Hs(o){let[e,t,s]=o.map(n=>{let r=n/255;return r<=.04045?r/12.92:((r+.055)/1.055)**2.4});return .2126*e+.7152*t+.0722*s}function X(o){return Hs(o)>.179?"#000000":"#ffffff"}function zs(o){let e=atob(o),t=new Uint8Array(e.length);for(let s=0;s<e.length;s++)t[s]=e.charCodeAt(s);return t}var Ns=(()=>{let o=new Float32Array(65536);for(let e=0;e<65536;e++){let t=e&32768?-1:1,s=e>>10&31,n=e&1023;s===0?o[e]=t*n*2**-24:s===31?o[e]=n?Number.NaN:t*Number.POSITIVE_INFINITY:o[e]=t*(1+n/1024)*2**(s-15)}return o})();function U(o){let e=zs(o.data).buffer;switch(o.dtype){case"float16":{let t=new Uint16Array(e),s=new Float32Array(t.length);for(let n=0;n<t.length;n++)s[n]=Ns[t[n]];return s}case"float32":return new Float32Array(e);case"uint16":return new Uint16Array(e);case"uint32":return new Uint32Array(e);default:throw new Error(`This viewer cannot read arrays of type ${o.dtype}. Update mixlens.`)}}function ne(o){return o.kind==="dense"?new et(o.shares):new tt(o)}var et=class{constructor(e){this.complete=!0;let t=e.shape;this.sources=t[t.length-1],this.targets=t[t.length-2],this.layers=t.slice(0,-2).reduce((s,n)=>s*n,1),this.values=U(e)}eachOfRow(e,t,s){let n=(e*this.targets+t)*this.sources;for(let r=0;r<this.sources;r++){let i=this.values[n+r];i!==0&&s(r,i)}}eachOfColumn(e,t,s){let n=e*this.targets*this.sources+t;for(let r=0;r<this.targets;r++){let i=this.values[n+r*this.sources];i!==0&&s(r,i)}}},tt=class{constructor(e){this.complete=!1;this.columns=new Map;[this.layers,this.targets,this.sources]=e.shape,this.starts=U(e.starts),this.indices=U(e.indices),this.values=U(e.values)}eachOfRow(e,t,s){let n=e*this.targets+t;for(let r=this.starts[n];r<this.starts[n+1];r++)s(this.indices[r],this.values[r])}eachOfColumn(e,t,s){let{starts:n,rows:r,values:i}=this.columnsOf(e);for(let a=n[t];a<n[t+1];a++)s(r[a],i[a])}columnsOf(e){let t=this.columns.get(e);if(t)return t;let s=new Uint32Array(this.sources+1);for(let l=0;l<this.targets;l++)this.eachOfRow(e,l,h=>s[h+1]++);for(let l=0;l<this.sources;l++)s[l+1]+=s[l];let n=s.slice(),r=new Uint32Array(s[this.sources]),i=new Float32Array(r.length);for(let l=0;l<this.targets;l++)this.eachOfRow(e,l,(h,u)=>{let d=n[h]++;r[d]=l,i[d]=u});let a={starts:s,rows:r,values:i};return this.columns.set(e,a),a}};var it=/[^ \t\n\r]+/g,Rs=60,st=class{constructor(e){this.shares=ne(e.shares),this.totals=U(e.totals)}get columns(){return this.shares.sources}get lines(){return this.totals.length}of(e,t,s){let n=new Float64Array(this.columns),r=s?1:1/Math.max(1,t-e);for(let i=e;i<t;i++){let a=this.totals[i]*r;this.shares.eachOfRow(0,i,(l,h)=>{n[l]+=h*a})}return n}},nt=class{constructor(e){this.read=e;this.known=new Map}of(e){return this.known.has(e)||this.known.set(e,this.read(e)),this.known.get(e)}get documents(){return this.of("documents")}get passages(){return this.of("passages")}get words(){return this.of("words")}get kinds(){return this.of("kinds")}get patches(){return this.of("patches")}},rt=class{constructor(e,t){this.about=e;this.sentences=t;let s=n=>n?new st(n):null;this.tables={documents:s(e.documents),passages:s(e.passages),words:s(e.words),kinds:s(e.kinds),patches:s(e.patches??null)}}get tokens(){return this.tables.documents.lines-this.sentences-1}of(e,t){return new nt(s=>this.tables[s]?.of(e,t,this.about.removes)??null)}},ve=class{constructor(e){this.about=e;this.passages=[];this.firstWord=[];this.known=new Map;this.documents=e.blocks.filter(s=>s.document>=0).map(s=>s.name),this.methods=e.methods.map(()=>null);for(let{document:s,pieces:n}of e.blocks)for(let[r,i]of n)i>=0&&(this.passages[i]={text:r,document:s});let t=0;for(let{text:s}of this.passages)this.firstWord.push(t),t+=s.match(it)?.length??0}lines(e,t){let{words:s,sentences:n}=this.about,r=Number(e.slice(1));if(e[0]==="w")return[s[r].first,s[r].stop];let i=t+(e?r:n.length);return[i,i+1]}text(e){let{words:t,sentences:s}=this.about;return e?(e[0]==="w"?t:s)[Number(e.slice(1))].text:"This answer"}isPart(e){let t=Number(e.slice(1)),{words:s,sentences:n}=this.about;return e===""?!0:e[0]==="w"?t in s:e[0]==="s"&&t in n}of(e,t){let s=`${e} ${t}`,n=this.known.get(s);if(!n){let r=this.methods[e]??=new rt(this.about.methods[e],this.about.sentences.length);n=r.of(...this.lines(t,r.tokens)),this.known.size>Rs&&this.known.clear(),this.known.set(s,n)}return n}passageOf(e){let t=0,s=this.firstWord.length-1;for(;t<s;){let n=t+s+1>>1;this.firstWord[n]<=e?t=n:s=n-1}return t}};function ue(o){let e=0;for(let t of o)e+=Math.max(0,t);return o.map(t=>e>0?Math.max(0,t)/e:0)}function R(o,e){let t=[];for(let s=0;s<o.length;s++)o[s]>0&&t.push(s);return t.sort((s,n)=>o[n]-o[s]||s-n).slice(0,e)}var Fs={0:"NUL",7:"BEL",8:"BS",9:"TAB",10:"↵",13:"CR",27:"ESC",127:"DEL",160:"NBSP",173:"SHY",1564:"ALM",6158:"MVS",8203:"ZWSP",8204:"ZWNJ",8205:"ZWJ",8206:"LRM",8207:"RLM",8232:"LS",8233:"PS",8234:"LRE",8235:"RLE",8236:"PDF",8237:"LRO",8238:"RLO",8288:"WJ",8294:"LRI",8295:"RLI",8296:"FSI",8297:"PDI",65279:"BOM",65532:"OBJ"},js=/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u00a0\ufffc]/gu,St=/[\p{L}\p{M}\p{Extended_Pictographic}\ufe0f\u{1f3fb}-\u{1f3ff}]/u;function _(o){return o.replace(js,(e,t)=>{let s=e.codePointAt(0);if(s===10)return"↵";if(s===8204||s===8205){let n=[...o.slice(0,t)].pop()??"",r=[...o.slice(t+1)][0]??"";if(St.test(n)&&St.test(r))return e}return`⟨${Fs[s]??`U+${s.toString(16).toUpperCase().padStart(4,"0")}`}⟩`})}var F=class{constructor(e,t,s=new Set){this.text=e;this.unit=t;this.open=s;this.groups=qs(e,t,s),this.of=new Int32Array(e.labels.length),this.groups.forEach((n,r)=>this.of.fill(r,n.start,n.stop))}get size(){return this.groups.length}label(e){let{start:t,stop:s,segment:n}=this.groups[e],r=n===null?void 0:this.text.segments[n][2];return r===void 0?this.beginning(t,s,n!==null):_(r)}placed(e){let{start:t,segment:s}=this.groups[e],n=this.label(e);if(s!==null||!this.text.segments)return n;let r=this.text.segments[ot(this.text,t)]?.[2];return r===void 0||n.startsWith(r)?n:`${n} (${_(r)})`}beginning(e,t,s){let n=s?Math.min(t,e+6):t,r="";for(let i=e;i<n;i++)r+=(i>e?this.text.gaps[i].replace(/\s+/g," "):"")+this.text.shown[i];return _(r)+(n<t?" …":"")}special(e){let{start:t,stop:s}=this.groups[e];return this.text.special.slice(t,s).every(n=>n===1)}};function qs(o,e,t){let s=o.labels.length,n=(i,a)=>Array.from({length:a-i},(l,h)=>({start:i+h,stop:i+h+1,segment:null})),r=(i,a)=>o.words?o.words.filter(([l,h])=>l<a&&h>i).map(([l,h])=>({start:Math.max(l,i),stop:Math.min(h,a),segment:null})):n(i,a);return e==="tokens"?n(0,s):e==="words"||!o.segments?r(0,s):o.segments.flatMap(([i,a],l)=>t.has(l)?r(i,a):[{start:i,stop:a,segment:l}])}function ot(o,e){return o.segments?o.segments.findIndex(([t,s])=>t<=e&&e<s):-1}var Ds=.1,Is=.5,Lt=4,Ws=64;function Pt(o){let e=[];return o.special.forEach((t,s)=>{t&&!/mask/i.test(o.labels[s])&&e.push(s)}),e}function Ot(o,e,t){let s=new Set;if(e==="others"){o.labels.forEach((n,r)=>s.add(r));for(let[n,r,i]of o.segments??[])if(i!==void 0&&t.has(i))for(let a=n;a<r;a++)s.delete(a)}if(e==="special"||e==="both")for(let n of Pt(o))s.add(n);return(e==="first"||e==="both")&&s.add(0),s}function at(o,e){let{sources:t}=o;if(t.seconds||t.labels.length<2)return[];let s=[["none","nothing"]],n=Pt(t);n.length&&s.push(["special","special tokens"]);let r=n[0]===0;return(n.length!==1||!r)&&s.push(["first","first token (attention sink)"]),n.length&&!r&&s.push(["both","special and first tokens"]),t.segments?.some(([,,i])=>i!==void 0&&e.has(i))&&s.push(["others","all but documents"]),s}function Ht(o,e){let t=_s(o,e);if(t.length<Lt||t[0].values.length<Lt)return null;let s=new Float64Array(t[0].values.length),n=new Float64Array(s.length);for(let{own:a,values:l}of t)l.forEach((h,u)=>{u!==a&&(s[u]+=h,n[u]+=1)});s.forEach((a,l)=>s[l]=n[l]?a/n[l]:0);let r=s.reduce((a,l)=>a+l,0),i=0;for(let{own:a,values:l}of t){let h=r-(s[a]??0);l.forEach((u,d)=>{let p=d===a||h<=0?0:s[d]/h;i+=Math.abs(u-p)/2/t.length})}return i<Ds?{distance:i,first:s[0]/r}:null}function _s(o,e){let{held:t,square:s}=o,n=new F(o.sources,"tokens"),r=new F(o.targets,"tokens"),i=Math.max(1,t.length/Ws),a=[];for(let l=0;l<t.length;l+=i){let h=t[Math.floor(l)],u=s?h:-1,d=o.incoming(e,r,h,n).map(Math.abs);s&&(d[u]=0);let p=d.reduce((m,f)=>m+f,0);p>0&&a.push({own:u,values:d.map(m=>m/p)})}return a}var zt=o=>o.first>Is;function D(o){return typeof o=="string"&&o.startsWith("to")?Number(o.slice(2)):null}function xe(o){return o==="all"||o==="mean"||o.startsWith("to")?o:Number(o)}var we=class{constructor(e,t){this.entry=t;this.norms=new WeakMap;this.without=new Set;this.targets=e.texts[t.targets],this.sources=e.texts[t.sources],this.square=t.targets===t.sources,this.held=t.target_positions??this.targets.labels.map((n,r)=>r),this.rowOf=new Map(this.held.map((n,r)=>[n,r])),this.layers=t.scores&&ne(t.scores),this.joined=t.joined&&ne(t.joined.scores),this.perHead=t.heads?ne(t.heads):null,this.heads=this.perHead?this.perHead.layers/t.layers.length:0;let s=n=>n?U(n):null;this.totals=s(t.totals),this.joinedTotals=s(t.joined?.totals)}leaveOut(e){this.without=e,this.norms=new WeakMap}get complete(){return(this.layers?.complete??!0)&&(this.joined?.complete??!0)}get whole(){return this.square&&this.entry.target_positions===null&&this.layers!==null}get canFlow(){return this.whole&&this.joined!==null&&!this.entry.reaches_input}get depths(){let e=this.entry.layers.map((l,h)=>h),{joined:t,reaches_input:s}=this.entry,n=t?.how==="mean"||t?.how==="sum()",r=e.length>1&&!s&&!n?["mean"]:[],i=this.joined?["all"]:[];return[...this.entry.reading==="all"?[...i,...r]:[...r,...i],...this.upTo,...e]}get upTo(){let e=this.joined?.layers??0;return Array.from({length:Math.max(0,e-1)},(t,s)=>`to${s}`)}get defaultDepth(){let{reading:e,layers:t}=this.entry;return e!==void 0&&this.depths.includes(e)?e:this.depths.includes("mean")?"mean":this.joined?"all":t.length-1}hasOwnShare(e){let{own_share:t,joined:s}=this.entry;return!!(this.isJoined(e)?s.own_share:t)}warningAt(e){let{warnings:t,joined:s}=this.entry;return this.isJoined(e)?s.warnings?.[this.joinedLayer(e)]??null:typeof e=="number"?t?.[e]??null:null}joinedLayer(e){return D(e)??this.joined.layers-1}isJoined(e){return this.joined!==null&&typeof e=="string"&&e!=="mean"}depthName(e){if(e==="mean")return`Mean of ${this.entry.layers.length} layers`;let t=this.entry.joined?.how.replace(/\(.*/,"")??"";if(e==="all"&&t==="last")return"Last layer";if(e==="all")return/^-?\d+$/.test(t)?`Layer ${t}`:`All layers (${t})`;let s=D(e);if(s!==null)return`Layers up to ${this.entry.layers[s]} (${t})`;let n=(this.entry.provenance.steps??[]).find(i=>/^(rollout|flow)/.test(i)),r=`Layer ${this.entry.layers[e]}`;return n?`${r} (${n.replace(/\(.*/,"")} up to it)`:r}holds(e){return this.rowOf.has(e)}planes({depth:e,head:t}){return this.isJoined(e)?[this.joinedPlane(this.joinedLayer(e))]:typeof e=="string"?this.entry.layers.flatMap((s,n)=>this.planes({depth:n,head:t})):t!==null&&this.perHead?[{shares:this.perHead,layer:e*this.heads+t,totals:null}]:this.layers?[{shares:this.layers,layer:e,totals:this.part(this.totals,e)}]:[]}joinedPlane(e){return{shares:this.joined,layer:e,totals:this.part(this.joinedTotals,e)}}part(e,t){let s=this.held.length;return e?.subarray(t*s,(t+1)*s)??null}rows(e,t){let{start:s,stop:n}=e.groups[t],r=[];for(let i=s;i<n;i++){let a=this.rowOf.get(i);a!==void 0&&r.push(a)}return r}incoming(e,t,s,n){let r=new Float64Array(n.size),i=this.planes(e),a=this.rows(t,s);for(let l of i){let h=i.length>1?new Float64Array(n.size):r,u=this.accumulate(l,a,n,h),d=u>0?1/u/i.length:0;for(let p=0;p<h.length;p++)h===r?r[p]*=d:r[p]+=h[p]*d}return r}shareOf(e,t,s,n){let r=this.planes(e),i=this.rows(t,s),a=0;for(let{shares:l,layer:h,totals:u}of r){let[d,p]=[0,0];for(let m of i){let f=u?u[m]:1;p+=f,l.eachOfRow(h,m,(g,b)=>{n.has(g)&&(d+=Math.abs(b)*f)})}p>0&&(a+=d/p/r.length)}return a}accumulate(e,t,s,n){let r=0;for(let a of t){let l=e.totals?e.totals[a]:1,h=0;e.shares.eachOfRow(e.layer,a,(u,d)=>{this.without.has(u)||(n[s.of[u]]+=d*l),h+=Math.abs(d)}),e.shares.complete||(r+=Math.max(0,1-h)*l)}let i=r;for(let a of n)i+=Math.abs(a);return i}outgoing(e,t,s,n){let r=new Float64Array(t.size),i=this.planes(e),{start:a,stop:l}=s.groups[n];for(let h of i){let u=this.normsOf(h,t,s);for(let d=a;d<l;d++)this.without.has(d)||h.shares.eachOfColumn(h.layer,d,(p,m)=>{let f=t.of[this.held[p]],g=u[f],b=h.totals?h.totals[p]:1;g>0&&(r[f]+=m*b/g/i.length)})}return r}normsOf(e,t,s){let n=this.norms.get(t)??new Map;this.norms.set(t,n);let r=`${e.shares===this.perHead} ${e.shares===this.joined} ${e.layer}`,i=n.get(r)??new Float64Array(t.size);if(n.has(r))return i;for(let a=0;a<t.size;a++){let l=this.rows(t,a);if(this.entry.signed||this.without.size)i[a]=this.accumulate(e,l,s,new Float64Array(s.size));else for(let h of l)i[a]+=e.totals?e.totals[h]:1}return n.set(r,i),i}eachTransition(e,t,s){let{residual:n=0,normalise:r}=this.entry.joined,i=this.entry.signed||!this.totals?1:this.totals[e*this.held.length+t],a=n;r!==!1&&this.layers.eachOfRow(e,t,(h,u)=>{a+=(1-n)*Math.abs(u)*i});let l=r===!1?1:a>0?1/a:0;n>0&&s(t,n*l),this.layers.eachOfRow(e,t,(h,u)=>s(h,(1-n)*Math.abs(u)*i*l))}total({depth:e,head:t},s){if(t!==null||typeof e!="number"||!this.totals)return null;let n=this.rowOf.get(s);return n===void 0?null:this.totals[e*this.held.length+n]}};function $(o,e){let t=[];for(let s=0;s<o.length;s++)s!==e&&o[s]!==0&&t.push({group:s,value:o[s]});return t.sort((s,n)=>Math.abs(n.value)-Math.abs(s.value)||s.group-n.group)}function S(o,e){let t=0;for(let s=0;s<o.length;s++)s!==e&&(t=Math.max(t,Math.abs(o[s])));return t}var Gs=new Set,ye=class{constructor(e,t,s){this.payload=e;this.state=t;this.actions=s;this.preview=null;this.groupings=new Map;this.patches=new Map;this.hidden="none";this.gone=new Map;this.likeness=new Map;this.measured=e.maps.map(n=>new we(e,n)),this.answer=e.answer?new ve(e.answer):null,this.documents=new Set(this.answer?.documents)}leaveOut(){if(this.state.hide!==this.hidden){this.hidden=this.state.hide,this.gone.clear();for(let e of this.measured){let t=this.gone.get(e.sources)??Ot(e.sources,this.hidden,this.documents);this.gone.set(e.sources,t),e.leaveOut(t)}}}goneFrom(e){return this.gone.get(e)??Gs}get hiddenShare(){let e=this.goneFrom(this.current.sources);return e.size?this.current.shareOf(this.choice,this.targets,this.targetGroup,e):0}alike(e=this.state.depth){let{map:t,head:s,hide:n}=this.state,r=[t,e,s,n].join(" ");return this.likeness.has(r)||this.likeness.set(r,Ht(this.current,{depth:e,head:s})),this.likeness.get(r)}get current(){return this.measured[this.state.map]}get choice(){return{depth:this.state.depth,head:this.state.head}}get target(){return this.preview??this.state.target}isPatch(e,t){let{image:s}=this.payload;return s?e!==this.payload.texts[s.text??this.payload.maps[0].sources]?!1:t>=s.first&&t<s.first+s.rows*s.columns:this.patchesOf(e).has(t)}patchesOf(e){let t=this.patches.get(e);if(!t){let s=this.picturesOf(e).flatMap(({grids:n})=>n.flatMap(({first:r,rows:i,columns:a,stride:l})=>Array.from({length:i*a},(h,u)=>r+Math.floor(u/a)*l+u%a)));t=new Set(s),this.patches.set(e,t)}return t}picturesOf(e){let{image:t,images:s,texts:n}=this.payload;return t?[]:(s??[]).filter(r=>n[r.text]===e)}grouping(e){let t=this.state.unit==="segments"?this.openSegments(e):[],s=`${this.payload.texts.indexOf(e)} ${this.state.unit} ${t.join(",")}`,n=this.groupings.get(s);return n||(this.groupings.size>12&&this.groupings.clear(),n=new F(e,this.state.unit,new Set(t)),this.groupings.set(s,n)),n}fine(e){if(this.state.unit!=="segments")return this.grouping(e);let t=`${this.payload.texts.indexOf(e)} fine`,s=this.groupings.get(t)??new F(e,"words");return this.groupings.set(t,s),s}get ownShare(){return this.current.hasOwnShare(this.state.depth)}openSegments(e){let t=e===this.current.targets?ot(e,this.state.target):-1,s=new Set(this.state.open);return t>=0&&s.add(t),[...s].sort((n,r)=>n-r)}get targets(){return this.grouping(this.current.targets)}get sources(){return this.grouping(this.current.sources)}get targetGroup(){return this.targets.of[this.target]??0}get cueGroup(){let e=this.payload.start?.cue;return e==null?null:this.sources.of[e]??null}get own(){return this.current.square?this.targetGroup:-1}incoming(e=this.current,t=this.choice){return e.incoming(t,this.targets,this.targetGroup,this.sources)}outgoing(){let{current:e}=this;return e.outgoing(this.choice,this.targets,this.sources,this.targetGroup)}depthFor(e){return e.depths.includes(this.state.depth)?this.state.depth:e.defaultDepth}name(e){let{measure:t,provenance:s}=e.entry,n=s.site;return new Set(this.payload.maps.map(i=>i.provenance.site)).size>1&&n?`${t} · ${n}`:t}};function c(o,e={},...t){let s=document.createElement(o);for(let[n,r]of Object.entries(e))r==null||r===!1||(n.startsWith("on")?s.addEventListener(n.slice(2),r):n==="class"?s.className=String(r):s.setAttribute(n,r===!0?"":String(r)));return s.append(...t.filter(n=>n!=null&&n!==!1)),s}function Z(o,e){for(let[t,s]of Object.entries(e))o.style.setProperty(t,s);return o}function T(o){let e=[...o];return e.length>40?`${e.slice(0,39).join("")}…`:o}function ke(o){let e=o.length-1;return o.flatMap((t,s)=>[s===0?"":s===e?" and ":", ",...t])}function v(o){let e=Math.abs(o*100);if(e>0&&e<.005)return"under 0.01 %";let t=e>=9.95?0:e>=.095?1:2;return`${o<0?"−":""}${e.toFixed(t)} %`}var E=o=>`⁨${o}⁩`;function z(o,e,t,s){let n=c("select",{onchange:i=>s(i.target.value)}),r=new Map;for(let[i,a,l]of e){let h=l?r.get(l)??c("optgroup",{label:l}):n;l&&r.set(l,h),h!==n&&n.append(h),h.append(c("option",{value:i,selected:i===t},a))}return c("label",{class:"field"},c("span",{},o),n)}function N(o){let e={ArrowLeft:[-1,0],ArrowRight:[1,0],ArrowUp:[0,-1],ArrowDown:[0,1]};return c("canvas",{tabindex:"0",role:"img",onmousemove:o.over,onmouseleave:o.leave,onclick:o.choose,onkeydown:t=>{let s=e[t.key];t.key==="Enter"&&o.choose(),s&&(t.preventDefault(),o.step(...s))}})}var P=(o,e)=>Math.max(0,Math.min(e-1,o));function I(o,e){let t=c("details",{class:"behind"},c("summary",{},`${o} as a table`));return t.addEventListener("toggle",()=>{t.open&&Rt(t,e())}),t}function W(o,e){o.open&&Rt(o,e())}var Nt=400;function Rt(o,[e,...t]){o.querySelector("div")?.remove();let s=c("table",{},c("thead",{},c("tr",{},...(e??[]).map(r=>c("th",{scope:"col"},r)))),c("tbody",{},...t.slice(0,Nt).map(r=>c("tr",{},...r.map((i,a)=>a?c("td",{},i):c("th",{scope:"row"},i)))))),n=t.length-Nt;o.append(c("div",{class:"wide",tabindex:"0",role:"region","aria-label":"Table"},s,n>0&&c("p",{},`${n} more rows are in the CSV file.`)))}function Ft(o){let{methods:e,provenance:t,uses_template:s}=o.answer.about,{name:n,reading:r,citation:i,removes:a}=e[o.state.method],l=t.name??t.model??"",h=[l&&`${l}${t.dtype?` in ${String(t.dtype)}`:""}`,`answer ${String(t.answer??"generated")}`,t.cut_at&&`cut after ${String(t.cut_at)} tokens`,`${n}, ${r}`,i,`mixlens ${o.payload.mixlens}`],u=[a?"A score is the effect of the document on the probability of the answer. Percentages ignore negative scores.":"A percentage is a share of the scores of all documents. It is neither a probability nor a proof. A method can miss the evidence, and shares depend on the length of documents."];return s&&u.push("mixlens wrote the prompt with the chat template of the model."),[...u.map(d=>c("p",{},d)),c("p",{},h.filter(Boolean).join(" · "))]}function jt(o){let{current:e,payload:t}=o,{provenance:s,citation:n,summary:r,notes:i,measure:a,joined:l}=e.entry,h=Object.entries(s.options??{}).filter(([,f])=>f!==null).map(([f,g])=>`${f}=${String(g)}`).join(", "),u=(s.steps??[]).join(" → "),d=s.name??s.model??"",p=[d&&`${d}${s.dtype?` in ${String(s.dtype)}`:""}`,`${a}${h?` (${h})`:""}${u?` → ${u}`:""}`,l&&e.isJoined(o.state.depth)&&`layers joined by ${l.how}`,s.site,n,"shares in float16, three digits",`mixlens ${t.mixlens}`],m=[...i??[]];if(!e.complete){let f=Array.from(o.incoming()).reduce((g,b)=>g+Math.abs(b),0);m.push(`This page has only the largest shares of each row and column. For this target ${v(Math.max(0,1-f))} is missing.`)}return[c("p",{},c("b",{},a),r?`: ${r}.`:"."),c("p",{},p.filter(Boolean).join(" · ")),...m.map(f=>c("p",{},f))]}function Me(o,e,t){return c("fieldset",{class:"checks"},c("legend",{class:"unseen"},o),...e.map(({name:s,summary:n})=>c("label",{title:n??""},c("input",{type:"checkbox",value:s,checked:t.has(s)}),` ${s}`)))}function re(o){return[...o.querySelectorAll("fieldset input:checked")].map(e=>e.value)}var Bs=["user","assistant","system"],qt=64,Te=class{constructor(e){this.turns=c("div",{class:"turns"});this.documents=c("div",{class:"papers"});this.answer=c("textarea",{rows:"2","aria-label":"Answer to explain",placeholder:"Leave empty to let the model answer",spellcheck:"false"});this.length=c("input",{type:"number",min:"1",value:String(qt)});this.methods=c("div");this.ticked=e?.methods??[],this.addTurn=Dt("Add a turn",()=>this.putTurn({role:"user",content:""}));let t=()=>this.putDocument(this.nextName(),"").querySelector("textarea").focus();for(let s of e?.messages??[{role:"user",content:""}])this.putTurn(s);for(let{name:s,text:n}of e?.documents??[])this.putDocument(s,n);this.element=c("div",{class:"live-part"},c("div",{class:"live-head"},c("h2",{},"Documents"),Dt("Add a document",t)),this.documents,c("div",{class:"live-head"},c("h2",{},"Prompt"),this.addTurn),this.turns,c("details",{class:"behind"},c("summary",{},"Methods, length and given answer"),this.methods,c("label",{class:"field"},c("span",{},"Maximum new tokens"),this.length),this.answer))}offer(e,t){let s=t.methods??[];this.methods.firstChild&&(this.ticked=re(this.element));let n=this.ticked.filter(l=>s.includes(l));this.ticked=n.length?n:s.slice(0,1);let r=new Map(e.measures.map(({name:l,summary:h})=>[l,h])),i=s.map(l=>({name:l,summary:r.get(l)}));this.methods.replaceChildren(Me("Methods",i,new Set(this.ticked))),this.addTurn.hidden=!t.chats;let a=e.limits?.new_tokens;a&&(this.length.max=String(a),this.length.value=String(Math.min(Number(this.length.value),a)))}job(e){let t=r=>[...r.children],n=t(this.turns).map(r=>({role:r.querySelector("select").value,content:r.querySelector("textarea").value})).filter(({content:r})=>r.trim());if(n.length===1&&(n[0].role="user"),!n.length)throw new Error("The prompt is empty. Type a question or a text.");return{model:e,messages:n,documents:t(this.documents).map(r=>({name:r.querySelector("input").value.trim(),text:r.querySelector("textarea").value})).filter(({text:r})=>r.trim()),answer:this.answer.value.trim()?this.answer.value:null,methods:re(this.element),max_new_tokens:Number(this.length.value)||qt}}putTurn({role:e,content:t}){let s=c("textarea",{rows:"3","aria-label":"Prompt",spellcheck:"false"});s.value=t,s.placeholder="A question or a prompt. Put {documents} where the documents go.";let n=c("select",{"aria-label":"Role"},...Bs.map(i=>c("option",{value:i,selected:i===e},i))),r=c("div",{class:"turn-row"},n,s,It("turn",()=>r.remove()));this.turns.append(r)}putDocument(e,t){let s=c("input",{type:"text","aria-label":"Name of the document"});s.value=e;let n=c("textarea",{rows:"3","aria-label":`Text of ${e}`,spellcheck:"false"});n.value=t,n.placeholder="The text of this document";let r=c("div",{class:"paper"},s,It("document",()=>r.remove()),n);return this.documents.append(r),r}nextName(){let e=[...this.documents.querySelectorAll("input")].map(s=>s.value.trim()),t=e.length+1;for(;e.includes(`document ${t}`);)t++;return`document ${t}`}};function Dt(o,e){return c("button",{type:"button",onclick:e},o)}function It(o,e){return c("button",{type:"button",class:"plain","aria-label":`Remove this ${o}`,onclick:e},"×")}var Us=["value_zeroing","attention","alti"],Ee=class{constructor(e){this.text=c("textarea",{rows:"2","aria-label":"Text",spellcheck:"false"});this.second=c("textarea",{rows:"2","aria-label":"Target text (decoder input)",placeholder:"Decoder input",spellcheck:"false",hidden:!0});this.heads=c("input",{type:"checkbox"});this.measures=c("div");let t=e.request?[]:e.maps.map(s=>s.measure);this.ticked=t.length?t:Us,this.text.value=e.texts[0]&&!e.request?Vs(e):"",this.element=c("div",{class:"live-part"},this.text,this.second,c("details",{class:"behind"},c("summary",{},"Measures"),this.measures,c("label",{},this.heads," with single heads")))}offer(e,t){this.second.hidden=!t.pairs,this.measures.firstChild&&(this.ticked=re(this.element));let s=e.measures.filter(({name:n})=>t.measures?.includes(n)??!0);this.measures.replaceChildren(Me("Measures",s,new Set(this.ticked)))}job(e){return{model:e,text:this.text.value,target_text:this.second.hidden?null:this.second.value,measures:re(this.element),heads:this.heads.checked}}};function Vs(o){let{shown:e,gaps:t,special:s,labels:n}=o.texts[0];return e.map((r,i)=>s[i]&&!/mask/i.test(n[i])?"":t[i]+r).join("").trim()}var Js={text:"Measure a text",answer:"Explain an answer"},Ks={text:"Measure",answer:"Answer"},lt=class{constructor(e,t,s){this.live=e;this.show=s;this.kinds=c("div",{class:"kinds-of-job",role:"group",hidden:!0});this.fields=c("span",{class:"live-fields"});this.run=c("button",{type:"submit",class:"primary"},"Measure");this.bar=c("progress",{max:"1",hidden:!0,"aria-label":"Progress"});this.words=c("p",{class:"quiet",role:"status"});this.model={name:""};this.choices={models:[],measures:[]};this.kind=t.request?"answer":"text",this.parts={text:new Ee(t),answer:new Te(t.request??null)},this.kinds.setAttribute("aria-label","Task");let n={type:"button",hidden:!0,onclick:()=>e.cancel()};this.cancel=c("button",n,"Cancel"),this.element=c("form",{class:"live",onsubmit:r=>{r.preventDefault(),this.go()}},this.kinds,this.parts.text.element,this.parts.answer.element,c("div",{class:"live-line"},this.fields,this.run,this.cancel,this.bar,this.words)),this.choose(this.kind),e.choices().then(r=>this.offer(r),r=>this.fail(r))}offer(e){if(this.choices=e,this.take(e.models[0]??{name:""}),e.models.length<2)return;let t=e.models.map(({name:s})=>[s,s]);this.fields.append(z("Model",t,this.model.name,s=>this.take(e.models.find(({name:n})=>n===s))))}take(e){this.model=e;for(let s of Object.values(this.parts))s.offer(this.choices,e);let t=!!e.methods?.length;this.kinds.hidden=!t,this.choose(t?this.kind:"text")}choose(e){this.kind=e;for(let t of["text","answer"])this.parts[t].element.hidden=t!==e;this.run.textContent=Ks[e],this.kinds.replaceChildren(...["answer","text"].map(t=>c("button",{type:"button","aria-pressed":String(t===e),onclick:()=>this.choose(t)},Js[t])))}async go(){this.run.disabled=!0,this.bar.hidden=this.cancel.hidden=!1,this.bar.removeAttribute("value"),this.words.textContent="",this.words.classList.remove("wrong");try{let e=this.parts[this.kind].job(this.model.name);this.show(await this.live.run(e,(t,s)=>{this.bar.value=t,this.words.textContent=s})),this.words.textContent=""}catch(e){this.fail(e)}finally{this.run.disabled=!1,this.bar.hidden=this.cancel.hidden=!0}}fail(e){this.words.textContent=e.message,this.words.classList.add("wrong")}};function Wt(o,e,t){return new lt(o,e,t).element}var _t='system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif',Gt=(o,e=400)=>`${e} ${o}px ${_t}`,Q=class{constructor(e){this.pen=e;this.rect=(e,t,s,n,r,i,a=1,l=0)=>{let{pen:h}=this;h.beginPath(),l?h.roundRect(e,t,s,n,l):h.rect(e,t,s,n),r&&(h.fillStyle=r,h.fill()),i&&(h.strokeStyle=i,h.lineWidth=a,h.stroke())};this.text=(e,t,s,n)=>{let{pen:r}=this;r.save(),r.font=Gt(n.size,n.weight),r.fillStyle=n.fill,r.textAlign=n.align??"left",r.direction=n.rtl?"rtl":"ltr",r.translate(e,t),n.rotate&&r.rotate(n.rotate*Math.PI/180),r.fillText(s,0,0),r.restore()};this.curve=(e,t,s,n,r,i,a)=>{let{pen:l}=this,h=(t+n)/2;l.save(),l.globalAlpha=a,l.strokeStyle=i,l.lineWidth=r,l.lineCap="round",l.beginPath(),l.moveTo(e,t),l.bezierCurveTo(e,h,s,h,s,n),l.stroke(),l.restore()};this.circle=(e,t,s,n,r)=>{let{pen:i}=this;i.beginPath(),i.arc(e,t,s,0,2*Math.PI),i.fillStyle=n,i.fill(),r&&(i.strokeStyle=r,i.lineWidth=2,i.stroke())};this.image=(e,t,s,n,r,i=!1)=>{this.pen.imageSmoothingEnabled=i,this.pen.drawImage(e,t,s,n,r)}}width(e,t,s){return Bt(e,t,s)}},ht=null;function Bt(o,e,t){return ht??=document.createElement("canvas").getContext("2d"),ht.font=Gt(e,t),ht.measureText(o).width}var ie=o=>Math.round(o*100)/100,de=class{constructor(){this.parts=[];this.rect=(e,t,s,n,r,i,a=1,l=0)=>{this.put("rect",{x:e,y:t,width:s,height:n,rx:l||void 0,fill:r??"none",stroke:i,"stroke-width":i&&a})};this.text=(e,t,s,n)=>{let r={left:"start",center:"middle",right:"end"}[n.align??"left"];this.put("text",{x:n.rotate?0:e,y:n.rotate?0:t,transform:n.rotate?`translate(${ie(e)} ${ie(t)}) rotate(${n.rotate})`:void 0,"font-size":n.size,"font-weight":n.weight,fill:n.fill,direction:n.rtl?"rtl":void 0,"text-anchor":r==="start"?void 0:r},ct(s))};this.curve=(e,t,s,n,r,i,a)=>{let[l,h,u,d,p]=[e,t,s,n,(t+n)/2].map(ie);this.put("path",{d:`M${l} ${h}C${l} ${p} ${u} ${p} ${u} ${d}`,fill:"none",stroke:i,"stroke-width":r,"stroke-opacity":a,"stroke-linecap":"round"})};this.circle=(e,t,s,n,r)=>{this.put("circle",{cx:e,cy:t,r:s,fill:n,stroke:r,"stroke-width":r&&2})};this.image=(e,t,s,n,r)=>{let i=e instanceof HTMLCanvasElement?e.toDataURL("image/png"):e.src;this.put("image",{x:t,y:s,width:n,height:r,href:i,preserveAspectRatio:"none",style:"image-rendering:pixelated"})}}put(e,t,s=""){let n=Object.entries(t).filter(([,r])=>r!==void 0).map(([r,i])=>`${r}="${ct(String(typeof i=="number"?ie(i):i))}"`).join(" ");this.parts.push(`<${e} ${n}${s?`>${s}</${e}>`:"/>"}`)}width(e,t,s){return Bt(e,t,s)}file(e,t,s){let[n,r]=[ie(e),ie(t)],a=`<svg xmlns="http://www.w3.org/2000/svg" ${`width="${n}" height="${r}" viewBox="0 0 ${n} ${r}"`} font-family="${ct(_t)}">`,l=`<rect width="100%" height="100%" fill="${s}"/>`;return`${a}${l}${this.parts.join("")}</svg>
`}};function ct(o){return o.replace(/[&<>"]/g,e=>({"&":"&amp;","<":"&lt;",">":"&gt;",'"':"&quot;"})[e])}function A(o,e,t,s){if(o.width(e,t)<=s)return e;let n=[...e];for(;n.length>1&&o.width(`${n.join("")}…`,t)>s;)n.pop();return`${n.join("")}…`}function L(o,e,t){let s=Math.max(1,window.devicePixelRatio||1);o.width=Math.max(1,Math.round(e*s)),o.height=Math.max(1,Math.round(t*s)),o.style.width=`${e}px`,o.style.height=`${t}px`;let n=o.getContext("2d");return n.setTransform(s,0,0,s,0,0),n.clearRect(0,0,e,t),new Q(n)}var $e=1e3,pe=28;function Ys(o){let{current:e,state:t}=o,{provenance:s}=e.entry,n=s.name??s.model??"",r=t.head===null?"":`, head ${t.head}`;return[`${o.name(e)}, ${e.depthName(t.depth).toLowerCase()}${r}`,n,`mixlens ${o.payload.mixlens}`].filter(Boolean).join(" · ")}var ut=class{constructor(e,t){this.inner=e;this.by=t;this.rect=(e,t,...s)=>this.inner.rect(e+this.by,t+this.by,...s);this.text=(e,t,...s)=>this.inner.text(e+this.by,t+this.by,...s);this.circle=(e,t,...s)=>this.inner.circle(e+this.by,t+this.by,...s);this.curve=(e,t,s,n,...r)=>this.inner.curve(e+this.by,t+this.by,s+this.by,n+this.by,...r);this.image=(e,t,s,...n)=>this.inner.image(e,t+this.by,s+this.by,...n);this.width=(...e)=>this.inner.width(...e)}};function dt(o,e,t){let s=$e-2*pe,n=o.paint(new ut(t,pe),e,s);return t.text(pe,pe+n+22,Ys(e),{size:12,fill:e.palette.quiet}),n+2*pe+22}function Ut(o,e){let t=new de,s=dt(o,e,t);return t.file($e,s,e.palette.paper)}function Vt(o,e,t=2){let s=dt(o,e,new de),n=document.createElement("canvas");n.width=$e*t,n.height=Math.round(s*t);let r=n.getContext("2d");return r.scale(t,t),r.fillStyle=e.palette.paper,r.fillRect(0,0,$e,s),dt(o,e,new Q(r)),new Promise((i,a)=>n.toBlob(l=>l?i(l):a(new Error("The picture is too large for this browser. Save it as SVG.")),"image/png"))}function Jt(o){let e=t=>{let s=/^[=@+\t\r]/.test(t)||/^-(?![\d.])/.test(t)?`'${t}`:t;return/[",\n\r]/.test(s)?`"${s.replaceAll('"','""')}"`:s};return`${o.map(t=>t.map(e).join(",")).join(`\r
`)}\r
`}function Kt(o,e){let[t,...s]=o.rows(e),{current:n,state:r}=e,i=n.depthName(r.depth),{provenance:a}=n.entry;return`${JSON.stringify({state:r,depth:i,provenance:a,columns:t,rows:s},null,2)}
`}function me(o,e,t){let s=typeof e=="string"?new Blob([e],{type:t}):e,n=document.createElement("a");n.href=URL.createObjectURL(s),n.download=o,n.click(),setTimeout(()=>URL.revokeObjectURL(n.href),1e4)}function Yt(o,e,t){let s=c("summary",{},"Save"),n=c("details",{class:"menu"},s),r=(h,u)=>c("button",{type:"button",onclick:async()=>{n.open=!1;try{await u()}catch(p){s.textContent="Not available here",s.title=p.message,e.actions.announce(p.message)}}},h),i=h=>`mixlens-${e.state.view}.${h}`,a=()=>Vt(o(),e),l=[r("Picture (PNG)",async()=>me(i("png"),await a(),"image/png")),r("Drawing (SVG)",()=>me(i("svg"),Ut(o(),e),"image/svg+xml")),r("Numbers (CSV)",()=>me(i("csv"),Jt(o().rows(e)),"text/csv")),r("Numbers (JSON)",()=>me(i("json"),Kt(o(),e),"application/json")),r("Copy the picture",()=>navigator.clipboard.write([new ClipboardItem({"image/png":a()})]))];return t&&l.push(r("Copy a link to this view",()=>navigator.clipboard.writeText(location.href))),n.append(c("div",{},...l)),n.addEventListener("keydown",h=>{h.key==="Escape"&&(n.open=!1)}),n}function Xt(o){if(o?.format!=="mixlens")throw new Error("This is not a mixlens payload.");if(o.version!==1)throw new Error(`This viewer reads payloads of version 1, not ${o.version}. Save the page again.`);return o}var pt=["answer","text","map","heads","flow","compare"],Xs=["none","special","first","both","others"];function mt(o,e){let t=new URLSearchParams,s=(n,r,i)=>{JSON.stringify(r)!==JSON.stringify(i)&&t.set(n,String(r??""))};return s("view",o.view,e.view),s("measure",o.map,e.map),s("with",o.other,e.other),s("target",o.target,e.target),s("layer",o.depth,e.depth),s("rows",o.rows,e.rows),s("head",o.head,e.head),s("unit",o.unit,e.unit),s("from",o.threshold,e.threshold),s("open",o.open,e.open),s("node",o.node,e.node),s("hide",o.hide,e.hide),s("method",o.method,e.method),s("part",o.part,e.part),s("follow",o.follow,e.follow),s("theme",o.theme,e.theme),t.toString()}function ft(o,e){let t=new URLSearchParams(o.replace(/^#/,"")),s=(h,u)=>{let d=t.get(h),p=Number(d);return d!==null&&d!==""&&Number.isFinite(p)?p:u},n=(h,u)=>t.get(h)===""?null:t.has(h)?s(h,-1):u,r=(h,u,d)=>u.find(p=>p===t.get(h))??d,i=h=>(t.get(h)??"").split(",").filter(Boolean).map(Number),a=t.get("layer"),l=i("node");return{view:r("view",pt,e.view),map:s("measure",e.map),other:n("with",e.other),target:s("target",e.target),depth:a?xe(a):e.depth,rows:r("rows",["each","upto"],e.rows),head:n("head",e.head),unit:r("unit",["tokens","words","segments"],e.unit),threshold:s("from",e.threshold),open:t.has("open")?i("open"):e.open,node:l.length===2?[l[0],l[1]]:null,hide:r("hide",Xs,e.hide),method:s("method",e.method),part:t.get("part")??e.part,follow:r("follow",["words","sentences"],e.follow),theme:r("theme",["auto","light","dark"],e.theme)}}var Ae=class{constructor(e){this.handlers=e;this.words=[];this.sentenceOf=[];this.follow="words";this.key="";this.element=c("div",{class:"answer-text",role:"listbox","aria-label":"Answer",dir:"auto",onclick:t=>this.at(t,s=>this.handlers.choose(s)),onmousemove:t=>this.over(t),onmouseleave:()=>this.handlers.point(null),onfocusin:t=>this.at(t,s=>this.handlers.point(s)),onfocusout:()=>this.handlers.point(null),onkeydown:t=>this.typed(t)})}partOf(e){let t=e.target.closest("[data-word], [data-cites]");if(!t)return null;if(t.dataset.cites!==void 0)return`s${Number(t.dataset.cites)}`;let s=Number(t.dataset.word),n=this.sentenceOf[s];return this.follow==="sentences"&&n>=0?`s${n}`:`w${s}`}at(e,t){let s=this.partOf(e);s&&t(s)}over(e){let t=this.partOf(e);t&&this.handlers.point(t)}typed(e){let t=this.words.indexOf(e.target);if(t<0)return;let s={ArrowRight:1,ArrowLeft:-1,ArrowDown:1,ArrowUp:-1}[e.key];if(e.key==="Enter"||e.key===" ")this.at(e,this.handlers.choose);else if(e.key==="Escape")this.handlers.choose("");else if(e.key==="Home")this.focus(0);else if(e.key==="End")this.focus(this.words.length-1);else if(s)e.key==="ArrowUp"||e.key==="ArrowDown"?this.focusSentence(t,s):this.focus(t+s);else return;e.preventDefault()}focusSentence(e,t){let s=this.sentenceOf[e]+t,n=this.sentenceOf.indexOf(s);n>=0&&this.focus(n)}focus(e){let t=Math.max(0,Math.min(this.words.length-1,e));for(let s of this.words)s.tabIndex=-1;this.words[t].tabIndex=0,this.words[t].focus()}update(e){let{about:t}=e.answer;this.follow=e.state.follow;let{name:s}=t.methods[e.state.method],n=`${s} ${t.pieces.length}`;if(n===this.key)return;this.key=n;let r=this.words.findIndex(d=>d.tabIndex===0),i=new Map;this.words=[],this.sentenceOf=[];let a=t.sentences.map((d,p)=>{let m=-1;for(let[,f,g]of t.pieces)g===p&&(m=f);return m}),l=[],h=t.pieces.reduce((d,[p])=>d+p.length,0);this.element.classList.toggle("long",h>700);for(let[d,p,m]of t.pieces){if(p<0){l.push(document.createTextNode(l.length?d:d.trimStart()));continue}let f=c("span",{class:"token",role:"option","data-word":p,tabindex:"-1"},_(d));this.words.push(f),this.sentenceOf.push(m),l.push(f),m>=0&&a[m]===p&&l.push(document.createTextNode("⁠"),this.cited(m,t.citations[s]?.[m]??[],i))}this.element.replaceChildren(...l);let u=this.words[Math.max(0,r)];u&&(u.tabIndex=0)}cited(e,t,s){let n=t.map(r=>(s.has(r)||s.set(r,s.size+1),`[${s.get(r)}]`));return c("span",{class:"cites","data-cites":e,"aria-hidden":"true",title:"Show the passages that this sentence rests on"},n.join(""))}mark(e,t){this.words.forEach((s,n)=>{let r=e===`w${n}`||e===`s${this.sentenceOf[n]}`,i=t===`w${n}`||t===`s${this.sentenceOf[n]}`;s.classList.toggle("target",r),s.classList.toggle("of-sentence",r&&e.startsWith("s")),s.classList.toggle("pointed",r&&!i),s.setAttribute("aria-selected",String(i))})}};var Zt=420,Ce=class{constructor(){this.picture=new Image;this.grey=null;this.context=null;this.values=[];this.scale=0;this.at=null;this.canvas=N({over:e=>this.pointAt(this.patch(e),e),leave:()=>this.pointAt(null,null),choose:()=>this.choose(),step:(e,t)=>this.walk(e,t)}),this.canvas.setAttribute("aria-label","The picture, its patches shaded by their share; the ranked list has the numbers. Arrow keys move, Enter chooses a patch."),this.element=c("figure",{class:"picture"},this.canvas),this.picture.addEventListener("load",()=>{this.grey=gt(this.picture),this.draw()})}show(e,t,s){let{image:n}=e.payload;n&&(Object.assign(this,{context:e,values:t,scale:s}),this.picture.src!==n.src&&(this.picture.src=n.src),this.draw())}size(e){let t=(this.picture.naturalHeight||1)/(this.picture.naturalWidth||1),s=Math.min(e,Zt,Zt/t);return[s,s*t]}draw(){if(!this.context||!this.picture.naturalWidth)return;let[e,t]=this.size(this.element.clientWidth||420);this.painted(L(this.canvas,e,t),this.context,0,0,e,t)}painted(e,t,s,n,r,i){let{rows:a,columns:l,first:h}=t.payload.image,{sources:u,own:d}=t;e.image(this.grey??this.picture,s,n,r,i,!0);let[p,m]=[r/l,i/a];for(let f=0;f<a*l;f++){let g=u.of[h+f];if(g===void 0)break;let b=this.scale>0?this.values[g]/this.scale:0,[w,C]=[s+f%l*p,n+Math.floor(f/l)*m],O=Math.min(.85,Math.abs(b)*.85),M=k(x(Y,b<0?-.75:.75)).replace(")",`, ${O})`);e.rect(w,C,p,m,M),g===d?e.rect(w+1,C+1,p-2,m-2,null,"#ffffff",3):h+f===this.at&&e.rect(w,C,p,m,null,"#ffffff",1.5)}}patch(e){let{context:t}=this;if(!t)return null;let{rows:s,columns:n,first:r}=t.payload.image,i=Math.floor(e.offsetX/this.canvas.clientWidth*n),a=Math.floor(e.offsetY/this.canvas.clientHeight*s);return r+a*n+i}pointAt(e,t){this.at=e,this.context?.actions.tip(t,this.words()),this.draw()}words(){let{context:e,at:t}=this;if(!e||t===null)return[];let{columns:s,first:n}=e.payload.image,r=e.sources.of[t]??0;return[`Patch in ${`row ${Math.floor((t-n)/s)}, column ${(t-n)%s}`}`,`${v(this.values[r]??0)} of the target`]}choose(){let{context:e,at:t}=this;e&&t!==null&&e.current.square&&e.current.holds(t)&&e.actions.set({target:t,node:null})}walk(e,t){let{context:s}=this;if(!s)return;let{rows:n,columns:r,first:i}=s.payload.image,a=this.at===null?0:this.at-i,l=P(a%r+(this.at===null?0:e),r),h=P(Math.floor(a/r)+(this.at===null?0:t),n);this.pointAt(i+h*r+l,null),s.actions.announce(this.words().join(", "))}paint(e,t,s,n,r,i,a){Object.assign(this,{values:i,scale:a});let[l,h]=this.size(r);return this.painted(e,t,s,n,l,h),h}};function gt(o){let e=document.createElement("canvas");e.width=o.naturalWidth,e.height=o.naturalHeight;let t=e.getContext("2d");t.drawImage(o,0,0);let s=t.getImageData(0,0,e.width,e.height);for(let n=0;n<s.data.length;n+=4){let[r,i,a]=s.data.subarray(n,n+3);s.data.fill(.3*r+.59*i+.11*a,n,n+3)}return t.putImageData(s,0,0),e}var bt=360;function Zs({grids:o}){return o.flatMap(e=>{let[t,s,n,r]=e.box,[i,a]=[(n-t)/e.columns,(r-s)/e.rows];return Array.from({length:e.rows*e.columns},(l,h)=>{let[u,d]=[Math.floor(h/e.columns),h%e.columns],[p,m]=[t+d*i,s+u*a],f=[p,m,p+i,m+a];return{token:e.first+u*e.stride+d,row:u,column:d,grid:e,box:f}})})}var Qt=(o,[e,t,s,n])=>o/Math.max(1e-9,(s-e)*(n-t));function Se(o,e){let t=0;for(let{patches:s}of o)for(let{token:n,box:r}of s)t=Math.max(t,Math.abs(Qt(e(n),r)));return t}var oe=class{constructor(e){this.picture=e;this.caption=c("figcaption",{});this.image=new Image;this.grey=null;this.context=null;this.value=()=>0;this.scale=0;this.at=-1;this.patches=Zs(e),this.canvas=N({over:t=>this.point(this.hit(t),t),leave:()=>this.point(-1,null),choose:()=>{},step:(t,s)=>this.walk(t,s)}),this.element=c("figure",{class:"heat"},this.canvas,this.caption),this.image.addEventListener("load",()=>{this.grey=gt(this.image),this.draw()}),this.image.src=e.src}show(e,t,s){Object.assign(this,{context:e,value:t,scale:s});let n=this.total;this.caption.textContent=`${this.picture.name} · ${v(n)} of all sources`,this.canvas.setAttribute("aria-label",`${this.picture.name}, ${v(n)} of all sources, its patches shaded by their share. Arrow keys move from patch to patch.`),this.draw()}get total(){let e=new Set(this.patches.map(({token:s})=>s)),t=0;for(let s of e)t+=this.value(s);return t}size(e){let t=(this.image.naturalHeight||1)/(this.image.naturalWidth||1),s=Math.min(e,bt,bt/t);return[s,s*t]}draw(){if(!this.context||!this.image.naturalWidth)return;let[e,t]=this.size(this.element.parentElement?.clientWidth||bt);this.painted(L(this.canvas,e,t),0,0,e,t)}painted(e,t,s,n,r){e.image(this.grey??this.image,t,s,n,r,!0),this.patches.forEach(({token:i,box:a},l)=>{let h=this.scale>0?Qt(this.value(i),a)/this.scale:0,u=Math.min(.85,Math.abs(h)*.85),d=k(x(Y,h<0?-.75:.75)).replace(")",`, ${u})`),[p,m]=[Math.max(0,a[0]),Math.max(0,a[1])],[f,g]=[Math.min(1,a[2]),Math.min(1,a[3])];if(f<=p||g<=m)return;let b=[t+p*n,s+m*r],w=[(f-p)*n,(g-m)*r];e.rect(...b,...w,d),l===this.at&&e.rect(...b,...w,null,"#ffffff",1.5)})}hit(e){let t=e.offsetX/this.canvas.clientWidth,s=e.offsetY/this.canvas.clientHeight,n=-1,r=Number.POSITIVE_INFINITY;return this.patches.forEach(({box:[i,a,l,h]},u)=>{let d=(l-i)*(h-a);t>=i&&t<l&&s>=a&&s<h&&d<r&&([n,r]=[u,d])}),n}words(){let e=this.patches[this.at];if(!e)return[];let t=this.picture.grids.length,s=t>1?`, grid ${this.picture.grids.indexOf(e.grid)+1} of ${t}`:"";return[`${this.picture.name} patch (${e.row}, ${e.column})${s}`,`${v(this.value(e.token))} of all sources`]}point(e,t){this.at=e,this.context?.actions.tip(e<0?null:t,this.words()),this.draw()}walk(e,t){let s=this.patches[this.at],n=s?.grid??this.picture.grids[0],r=Math.max(0,Math.min(n.rows-1,(s?.row??0)+(s?t:0))),i=Math.max(0,Math.min(n.columns-1,(s?.column??0)+(s?e:0))),a=this.patches.findIndex(l=>l.grid===n&&l.row===r&&l.column===i);this.point(a,null),this.context?.actions.announce(this.words().join(", "))}paint(e,t,s,n){let[r,i]=this.size(n);return this.painted(e,t,s,r,i),i}};var Qs=.12,Le=class{constructor(e,t){this.scroller=e;this.show=t;this.element=c("div",{class:"minimap","aria-hidden":"true"});this.window=c("div",{class:"minimap-window"});this.marks=c("div",{class:"minimap-marks"});this.passages=[];this.frame=0;this.last=null;this.starts=[];this.length=1;this.element.addEventListener("click",s=>this.jump(s)),e.addEventListener("scroll",()=>this.follow(),{passive:!0}),new ResizeObserver(()=>this.follow()).observe(e)}build(e,t){this.passages=t,this.starts=[];let s=0,n=[];for(let{document:i,pieces:a}of e.about.blocks)if(!(i<0)){n.push(s);for(let[l,h]of a)h>=0&&(this.starts[h]=s),s+=l.length;s+=60}this.length=Math.max(1,s);let r=n.slice(1).map(i=>Z(c("span",{class:"edge"}),{top:`${100*i/this.length}%`}));this.element.replaceChildren(...n.length<=60?r:[],this.marks,this.window),this.follow()}mark(e,t){if(e&&t&&(this.last=[e,t]),!this.last)return;let[s,n]=this.last;this.marks.replaceChildren(...s.filter(([,r])=>r>=Qs).map(([r,i])=>Z(c("span"),{top:`${100*this.starts[r]/this.length}%`,background:k(x(n,.3+.7*i))}))),this.follow()}follow(){cancelAnimationFrame(this.frame),this.frame=requestAnimationFrame(()=>{let{scrollTop:e,scrollHeight:t,clientHeight:s}=this.scroller,n=Math.max(1,t);this.element.hidden=t<=s+4,this.window.style.top=`${100*e/n}%`,this.window.style.height=`${100*s/n}%`})}jump(e){let t=this.element.getBoundingClientRect(),s=(e.clientY-t.top)/t.height*this.length,n=0;this.starts.forEach((r,i)=>{Math.abs(r-s)<Math.abs(this.starts[n]-s)&&(n=i)}),this.passages[n]&&this.show(n)}};var es=6,en=240,tn=60,sn=.15,nn=["#2a74bd","#8a6bbf","#b5528c","#c9793b","#8d9196","#4f9d86","#59626d"],Pe=class{constructor(){this.head=c("h1",{class:"answer"});this.facts=c("div",{class:"facts"});this.bar=c("div",{class:"kinds",role:"img"});this.legend=c("p",{class:"legend kinds-legend"});this.listName=c("h2",{});this.list=c("ol",{class:"cited"});this.methodsName=c("h2",{},"Result of each method");this.methods=c("table",{class:"methods"});this.scroller=c("div",{class:"documents",tabindex:"0",role:"region","aria-label":"Documents"});this.others=c("input",{type:"checkbox"});this.passages=[];this.badges=[];this.pictures=[];this.lit=[];this.wordSpans=new Map;this.built=null;this.hovered=null;this.frame=0;this.drawn="";this.kept="";this.text=new Ae({point:e=>this.point(e),choose:e=>this.context.actions.set({part:e===this.context.state.part?"":e})}),this.map=new Le(this.scroller,e=>this.show(e,!1)),this.others.addEventListener("change",()=>{this.scroller.classList.toggle("all",this.others.checked),this.map.mark()}),this.element=c("div",{class:"answer-view"},this.head,this.facts,c("div",{class:"answer-columns"},c("div",{class:"answer-side"},c("h2",{},"Answer"),this.text.element,this.bar,this.legend),c("div",{class:"details-side"},this.listName,this.list,this.methodsName,this.methods),c("div",{class:"documents-side"},c("div",{class:"documents-head"},c("h2",{},"Documents"),c("label",{},this.others," show question and template")),c("div",{class:"documents-frame"},this.scroller,this.map.element))))}get scores(){return this.context.answer}get part(){return this.hovered??this.context.state.part}get scored(){return this.scores.of(this.context.state.method,this.part)}point(e){e!==this.hovered&&(this.hovered=e,cancelAnimationFrame(this.frame),this.frame=requestAnimationFrame(()=>this.light()))}update(e){this.context=e,this.built!==e.answer&&this.build(),this.drawn="",this.text.update(e),this.light();let t=e.state.part!==this.kept;if(this.kept=e.state.part,this.kept&&t){let{passages:s,documents:n}=this.scored,r=s?R(s,1)[0]:this.firstOf(R(n,1)[0]);r!==void 0&&this.show(r,!1)}}firstOf(e){if(e!==void 0)return this.scores.passages.findIndex(t=>t.document===e)}build(){let{about:e}=this.built=this.scores;this.passages=[],this.badges=[],this.pictures=[],this.lit=[],this.wordSpans.clear(),this.scroller.replaceChildren(...e.blocks.map(t=>this.block(t))),this.map.build(this.scores,this.passages),this.others.closest("label").hidden=e.blocks.every(t=>t.document>=0)}block({name:e,kind:t,document:s,pieces:n}){let r=c("span",{class:"badge"});s>=0&&(this.badges[s]=r);let i=this.imageOf(e,s);if(i){let h=new oe(i);this.pictures.push(h);for(let[,d]of n)d>=0&&(this.passages[d]=h.element);let u=c("h3",{dir:"auto"},e,r);return c("section",{class:"document"},u,h.element)}let a=n.map(([h,u])=>u<0?c("span",{},h):this.passages[u]=c("span",{class:"passage"},h)),l=s>=0||t==="template"||t===e?e:`${e} · ${t}`;return c("section",{class:s>=0?"document":"document other"},c("h3",{dir:"auto"},l,r),c("p",{dir:"auto"},...a))}imageOf(e,t){if(!(t<0))return this.context.payload.images?.find(s=>s.name===e)}isPicture(e){let{document:t}=this.scores.passages[e];return this.imageOf(this.scores.documents[t],t)!==void 0}textOf(e){return this.isPicture(e)?"the image":this.scores.passages[e].text}heat(){let{patches:e}=this.scored,t=new Map(this.scores.about.patches?.map((r,i)=>[r,i])),s=r=>e?.[t.get(r)??-1]??0,n=Se(this.pictures,s);for(let r of this.pictures)r.show(this.context,s,n)}words(e){let t=this.wordSpans.get(e);if(t)return t;t=[];let{text:s}=this.scores.passages[e],n=[],r=0;for(let i of s.matchAll(it)){let a=c("span",{class:"word"},i[0]);n.push(s.slice(r,i.index),a),t.push(a),r=i.index+i[0].length}return n.push(s.slice(r)),this.passages[e].replaceChildren(...n),this.wordSpans.set(e,t),t}show(e,t=!0){let s=this.passages[e],{scroller:n}=this,r=()=>{let i=s.getBoundingClientRect(),a=n.getBoundingClientRect();n.scrollTop+=i.top-a.top-a.height/3};r(),requestAnimationFrame(r),t&&(s.classList.remove("found"),s.offsetWidth,s.classList.add("found"))}light(){let{state:e,palette:t}=this.context,s=`${e.method} ${this.part} ${t.paper}`;if(s===this.drawn)return;this.drawn=s;let{documents:n,passages:r,words:i}=this.scored,a=ue(n);for(let u of this.lit)u.style.background="",u.style.color="";this.lit=[];let l=r??this.spread(n),h=[];this.shadeBest(l,en,.5,(u,d)=>(h.push([u,d]),this.isPicture(u)?void 0:this.passages[u])),this.heat(),i&&this.shadeBest(i,tn,1,u=>{let d=this.scores.passageOf(u);if(!this.isPicture(d))return this.words(d)[u-this.scores.firstWord[d]]}),this.badges.forEach((u,d)=>{u.textContent=a[d]>=.005?v(a[d]):"",u.style.setProperty("--share",String(a[d]))}),this.map.mark(h,t),this.text.mark(this.part,e.part),this.sentence(a),this.fillKinds(),this.fillList(a),this.fillMethods()}spread(e){return Float64Array.from(this.scores.passages,t=>e[t.document])}shadeBest(e,t,s,n){let r=R(e,t),i=r.length?e[r[0]]:0;for(let a of r){let l=e[a]/i;if(l<sn)break;let h=n(a,l);if(!h)continue;let u=x(this.context.palette,l*s);h.style.background=k(u),h.style.color=X(u),this.lit.push(h)}}sentence(e){let{scores:t,part:s}=this,n=R(e,1)[0],i=(s[0]==="w"?c("b",{},T(t.text(s))):null)??(s?"This sentence":"This answer");n===void 0?this.head.replaceChildren(i," rests on no document."):t.documents.length===1?this.head.replaceChildren(...this.onPassage(i)):this.head.replaceChildren(i," rests most on ",c("b",{},T(t.documents[n])),` (${v(e[n])} of the documents)`);let{about:a}=t,h=a.methods.map((p,m)=>R(t.of(m,s).documents,1)[0]).filter(p=>p===n).length,u=a.methods[this.context.state.method],d=[`By ${u.name}, ${u.reading}.`];a.methods.length>1&&n!==void 0&&t.documents.length>1&&(d[0]+=` ${h} of ${a.methods.length} methods put this document first.`),this.facts.replaceChildren(c("p",{},d.join(" ")))}onPassage(e){let{passages:t}=this.scored,s=t?R(t,1)[0]:void 0;return s===void 0?[e," rests on this document"]:this.isPicture(s)?[e," rests on ",c("b",{},this.scores.documents[0]),"."]:[e," rests most on ",c("b",{},`“${T(this.scores.passages[s].text)}”`)]}fillKinds(){let{kinds:e}=this.scored;if(this.bar.hidden=this.legend.hidden=!e,!e)return;let t=this.scores.about.kinds.map(i=>i==="document"?"documents":i),s=0;for(let i of e)s+=i;let n=t.map((i,a)=>[i,e[a]/(s||1),nn[a]]).filter(([,i])=>i>0),r=n.map(([i,a])=>`${i} ${v(a)}`).join(", ");this.bar.setAttribute("aria-label",`Shares of all sources: ${r}`),this.bar.replaceChildren(...n.map(([,i,a])=>Z(c("span"),{"flex-grow":String(i),background:a}))),this.legend.replaceChildren(...n.map(([i,a,l])=>c("span",{},Z(c("i"),{background:l}),`${i} `,c("span",{class:"quiet"},v(a)))))}ranked(e){let{passages:t,documents:s}=this.scored;if(!t)return R(s,es).map(r=>({passage:this.firstOf(r),share:e[r],isCut:this.scores.passages.filter(({document:i})=>i===r).length>1}));let n=ue(t);return R(t,es).map(r=>({passage:r,share:n[r],isCut:!1}))}fillList(e){let t=this.ranked(e),s=this.part[0]==="w"?`“${T(this.scores.text(this.part))}”`:"";this.listName.textContent=s?`Passages for ${s}`:"Passages";let n=t[0]?.share??1;this.list.replaceChildren(...t.map(({passage:r,share:i,isCut:a})=>{let{document:l}=this.scores.passages[r],h=this.textOf(r),u=k(x(this.context.palette,.35+.6*i/n));return c("li",{},c("button",{type:"button",class:"passage-link",onclick:()=>this.show(r)},c("span",{class:"passage-head"},c("b",{},T(this.scores.documents[l])),c("span",{class:"quiet"},v(i))),c("span",{class:"passage-text",dir:"auto"},a?`${h} …`:h)),Z(c("span",{class:"bar"}),{width:`${100*i/n}%`,background:u}))}))}fillMethods(){let{scores:e,part:t}=this,{methods:s}=e.about;if(this.methods.hidden=this.methodsName.hidden=s.length<2||e.documents.length<2,this.methods.hidden)return;let n=s.map(({name:r},i)=>{let{documents:a}=e.of(i,t),l=R(a,1)[0],h=i===this.context.state.method,u=()=>this.context.actions.set({method:i});return c("tr",{class:h?"chosen":null},c("th",{scope:"row"},c("button",{type:"button",class:"source","aria-pressed":String(h),onclick:u},r)),c("td",{},l===void 0?"none":T(e.documents[l])),c("td",{},l===void 0?"":v(ue(a)[l])))});this.methods.replaceChildren(c("tbody",{},...n))}paint(e,t,s){this.context=t;let{palette:n}=t;((u,d,p,m,f)=>e.text(0,u,A(e,d,p,s),{size:p,fill:m,weight:f}))(20,this.head.textContent??"",18,n.ink,600);let i=48,a=this.scores.about.pieces.map(([u])=>u).join("");for(let u of rn(e,a.trim(),16,s))e.text(0,i,u,{size:16,fill:n.ink}),i+=24;i+=12;let l=this.ranked(ue(this.scored.documents)),h=l[0]?.share??1;for(let{passage:u,share:d}of l){let{document:p}=this.scores.passages[u],m=this.textOf(u),f=k(x(n,.35+.6*d/h));e.rect(0,i-12,90*(d/h),12,f),e.text(100,i-2,v(d),{size:13,fill:n.quiet});let g=`${this.scores.documents[p]}: ${m.replace(/\s+/g," ")}`;e.text(160,i-2,A(e,g,13,s-160),{size:13,fill:n.ink}),i+=24}for(let u of this.pictures)i+=u.paint(e,0,i,s)+14;return i}rows(e){this.context=e;let{scores:t}=this,s=[["method","part","document","passage","score"]],{name:n}=t.about.methods[e.state.method],r=this.part?t.text(this.part):"answer",{passages:i,documents:a}=this.scored;if(i)for(let l of R(i,i.length)){let{document:h}=t.passages[l],u=this.textOf(l);s.push([n,r,t.documents[h],u,i[l].toPrecision(4)])}else a.forEach((l,h)=>s.push([n,r,t.documents[h],"",l.toPrecision(4)]));return s}};function rn(o,e,t,s){let n=[];for(let r of e.split(`
`)){let i="";for(let a of r.split(/\s+/)){let l=i?`${i} ${a}`:a;i&&o.width(l,t)>s?(n.push(i),i=a):i=l}n.push(i)}return n}function vt(o){let e=Array.from({length:o.length},(s,n)=>n).sort((s,n)=>Math.abs(o[n])-Math.abs(o[s])),t=new Float64Array(o.length);for(let s=0;s<e.length;){let n=s;for(;n<e.length&&Math.abs(o[e[n]])===Math.abs(o[e[s]]);)n++;for(let r=s;r<n;r++)t[e[r]]=(s+1+n)/2;s=n}return t}function wt(o,e){let t=vt(o),s=vt(e),n=(t.length+1)/2,r=0,i=0,a=0;for(let l=0;l<t.length;l++)r+=(t[l]-n)*(s[l]-n),i+=(t[l]-n)**2,a+=(s[l]-n)**2;return i&&a?r/Math.sqrt(i*a):Number.NaN}function Oe(o,e){return Array.from(o).filter((t,s)=>s!==e)}function ae(o,e){let t=Array.from(o[0]??[],(r,i)=>i).filter(r=>r!==e),s=o.map(r=>vt(t.map(i=>r[i])));return t.map((r,i)=>{let a=o.map(d=>Math.abs(d[r])),l=a.indexOf(Math.max(...a)),h=a.indexOf(Math.min(...a)),u=a[l]-a[h];return{group:r,high:l,low:h,highRank:s[l][i],lowRank:s[h][i],weight:u}}).sort((r,i)=>i.weight-r.weight)}var on=6;function ze(o){let{current:e,state:t}=o;return o.measured.filter(s=>s.targets===e.targets&&s.sources===e.sources&&s.holds(t.target)).map(s=>({measured:s,values:o.incoming(s,{depth:o.depthFor(s),head:null})}))}function ee(o,e,t){return wt(Oe(e.values,o.own),Oe(t.values,o.own))}function Ne(o,e){let t=e.find(a=>a.measured===o.current),s=e.filter(a=>a!==t);if(!t||!s.length)return null;let n=s.filter(a=>a.measured.entry.layers.length>0),r=(n.length?n:s).filter(a=>a.measured.entry.measure!=="random"),i=a=>{let l=ee(o,t,a);return Number.isNaN(l)?2:l};return(r.length?r:s).reduce((a,l)=>i(l)<i(a)?l:a)}var an=.95;function ss(o,e){let t=e.find(l=>l.measured===o.current)??e[0],s=o.cueGroup,n=new Map(e.map(l=>[l,s===null?-ee(o,t,l)||0:$(l.values,o.own).findIndex(({group:h})=>h===s)])),r=l=>+(l.measured.entry.measure==="random"),i=[...e].sort((l,h)=>r(l)-r(h)||ts(n.get(l),s)-ts(n.get(h),s)||+(h===t)-+(l===t)),a=[];for(let l of i){let h=a.find(([u])=>!r(l)&&(s===null||n.get(u)===n.get(l))&&ee(o,u,l)>=an);h?h.push(l):a.push([l])}return a}var ts=(o,e)=>e!==null&&o<0?Number.MAX_SAFE_INTEGER:o;function xt(o,e){let t=o.name(e[0].measured);return e.length>1?`${t} +${e.length-1}`:t}function Re(o){return o>.8?"agree":o>.4?"agree in part":"disagree"}function ns(o,e){let{own:t,sources:s}=o,n=e.map(d=>d.values),r=ae(n,t).slice(0,on),i=Math.max(...n.map(d=>S(d,t))),a=n.map(d=>$(d,t).map(p=>p.group)),l=e.flatMap(d=>[c("th",{scope:"col",colspan:"2"},o.name(d.measured)),c("th",{scope:"col",class:"place"},"rank")]),h=d=>n.flatMap((p,m)=>[c("td",{class:"bars"},yt(o,p[d],i)),c("td",{class:"number"},v(p[d])),c("td",{class:"place"},ln(a[m].indexOf(d)))]),u=r.filter(d=>d.weight>0).map(({group:d})=>{let p=c("th",{scope:"row",dir:"auto"},s.label(d));return c("tr",{},p,...h(d))});return[c("thead",{},c("tr",{},c("th",{scope:"col"},"token"),...l)),c("tbody",{},...u)]}var ln=o=>o<0?"–":String(o+1);function yt(o,e,t,s){let n=c("span",{class:"bar"});return n.style.width=`${Math.min(100,t>0?Math.abs(e)/t*100:0)}%`,n.style.backgroundColor=s??k(x(o.palette,e<0?-.72:.72)),n}function rs(o,e){let t=e.map(([r])=>Oe(r.values,o.own)),s=e.map((r,i)=>c("th",{scope:"col"},He(i))),n=e.map((r,i)=>{let a=r.map(u=>o.name(u.measured)).join(", "),l=c("th",{scope:"row",title:a},c("b",{},He(i)),` ${xt(o,r)}`),h=t.map((u,d)=>i===d?c("td",{class:"same"},"·"):hn(o,wt(t[i],u)));return c("tr",{},l,...h)});return c("table",{},c("thead",{},c("tr",{},c("td"),...s)),c("tbody",{},...n))}function hn(o,e){if(Number.isNaN(e))return c("td",{},"–");let t=e.toFixed(2).replace("-","−"),s=c("td",{title:t},c("span",{},t)),n=x(o.palette,e*.9);return s.style.backgroundColor=k(n),s.style.color=X(n),s}function He(o){return o<26?String.fromCharCode(97+o):String(o)}var as=/[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;function is(o){for(let e of o){let t=/\p{L}/u.exec(e.replace(/^[[<].*[\]>]$/,""));if(t)return as.test(t[0])}return!1}function cn(o){return o.split(`
`).flatMap((e,t)=>{let s=t?[c("br")]:[];return e&&s.push(document.createTextNode(e.replace(/\s+/g," "))),s})}function os(o){let e=new Map,t=o.unit==="segments";return o.text.segments?.forEach(([s,n,r],i)=>{t&&o.open.has(i)?e.set(s,c("div",{class:"fold","data-fold":i,"aria-hidden":"true",title:"Close"},`▾ ${_(r??"")} ${n-s} tokens`)):!t&&r!==void 0&&e.set(s,c("div",{class:"segment-name"},_(r)))}),e}var te=class{constructor(e,t,s=!1){this.handlers=t;this.ofTargets=s;this.grouping=null;this.items=[];this.shades=[];this.palette=null;this.marked=-1;this.gone=null;this.inSight=null;this.element=c("div",{class:"reading",role:"listbox","aria-label":e,onclick:n=>this.at(n,r=>this.handlers.choose(r)),onmousemove:n=>this.over(n),onmouseleave:n=>this.handlers.point(null,n),onkeydown:n=>this.key(n),onfocusin:n=>this.at(n,r=>this.handlers.point(r,null)),onfocusout:()=>this.handlers.point(null,null)})}at(e,t){let s=e.target.closest("[data-fold]");s&&e.type==="click"&&this.handlers.close?.(Number(s.dataset.fold));let n=e.target.closest("[data-group]");n&&t(Number(n.dataset.group))}over(e){let t=e.target.closest("[data-group]"),s=t?Number(t.dataset.group):null;this.handlers.point(s,e)}key(e){let t=this.items.indexOf(e.target);if(t<0)return;let s=this.element.matches(":dir(rtl)")?"ArrowLeft":"ArrowRight",n=s==="ArrowRight"?"ArrowLeft":"ArrowRight",r={[s]:t+1,[n]:t-1,ArrowDown:t+1,ArrowUp:t-1,Home:0,End:this.items.length-1};if(e.key==="Enter"||e.key===" ")this.handlers.choose(t);else if(e.key in r){let i=Math.max(0,Math.min(this.items.length-1,r[e.key]));this.focus(i)}else return;e.preventDefault()}focus(e){for(let t of this.items)t.tabIndex===0&&(t.tabIndex=-1);this.items[e].tabIndex=0,this.items[e].focus()}show(e,t){e!==this.grouping&&(this.build(e,t),this.palette=this.gone=null),t.palette!==this.palette&&(this.shades=new Array(e.size).fill(Number.NaN),this.palette=t.palette);let s=t.goneFrom(e.text);s!==this.gone&&(this.gone=s,this.items.forEach((n,r)=>{let{start:i,stop:a}=e.groups[r],l=!0;for(let h=i;h<a;h++)l&&=s.has(h);n.classList.toggle("left-out",l)}))}holds(e,{start:t,stop:s}){if(!this.ofTargets)return!0;for(let n=t;n<s;n++)if(e.current.holds(n))return!0;return!1}get isEmpty(){return!this.element.firstChild}build(e,t){let s=this.items.indexOf(this.element.getRootNode().activeElement);this.grouping=e,this.marked=-1;let{text:n}=e,r=[],i=os(e);this.items=e.groups.map((h,u)=>{let d=t.isPatch(n,h.start)||!this.holds(t,h),p=i.get(h.start);p?r.push(p):!d&&h.segment===null&&r.push(...cn(n.gaps[h.start]));let m=e.special(u)&&!/mask/i.test(n.labels[h.start]),f=c("span",{class:["token",m&&"special",h.segment!==null&&"segment"].filter(Boolean).join(" "),role:"option",dir:"auto",tabindex:"-1","aria-selected":"false","data-group":u}),g=e.label(u);return f.append(g),h.segment!==null&&f.append(c("small",{},`${h.stop-h.start} tokens`),c("small",{})),d||r.push(f),!d&&g.endsWith("↵")&&r.push(c("br")),f}),this.element.replaceChildren(...r),this.element.dir=is(n.shown)?"rtl":"ltr";let a=this.element.querySelectorAll(".token").length;this.element.dataset.size=a<=40?"large":a<=150?"middle":a<=700?"small":"tiny";let l=this.items[Math.max(0,s)]??this.items[0];l&&(l.tabIndex=0),s>=0&&l?.focus()}find(e){let t=this.items[e];if(!t)return;this.reveal(e),t.classList.remove("found"),t.offsetWidth,t.classList.add("found");let s=t.getBoundingClientRect();(s.top<0||s.bottom>window.innerHeight)&&t.scrollIntoView({block:"center"})}shadeBy(e,t,s,n,r){this.items.forEach((a,l)=>{let h=s>0&&l!==n?Math.round(t[l]/s*64)/64:0;if(this.shades[l]===h)return;this.shades[l]=h;let u=x(e.palette,h);a.style.backgroundColor=h===0?"":k(u),a.style.color=h===0?"":X(u),this.grouping.groups[l].segment!==null&&(a.lastElementChild.textContent=v(t[l]))}),r&&n>=0&&this.inSight!==this.items[n]&&this.reveal(n),this.marked>=0&&this.items[this.marked]?.classList.remove("target","pointed"),this.marked=n;let i=this.items[n];if(i?.classList.add("target"),i?.classList.toggle("pointed",!r),r){let a=this.element.getRootNode().activeElement,l=a&&this.element.contains(a);this.items.forEach((h,u)=>{let d=String(u===n);h.getAttribute("aria-selected")!==d&&h.setAttribute("aria-selected",d),!l&&h.tabIndex===0!=(u===Math.max(0,n))&&(h.tabIndex=u===Math.max(0,n)?0:-1)})}}reveal(e){let t=this.items[e];this.inSight=t;let{element:s}=this,n=t.offsetTop-s.offsetTop,r=n<s.scrollTop,i=n+t.offsetHeight>s.scrollTop+s.clientHeight;(r||i)&&(s.scrollTop=n-s.clientHeight/2)}describe(e,t){this.items[e]?.setAttribute("aria-label",t)}paint(e,t,s,n,r,i,a,l){let h=this.grouping,{palette:u}=t,d=h.size<=40?22:h.size<=150?17:13,p=d*1.8,m=h.groups.map((C,O)=>A(e,h.label(O),d,r-12)),f=is(h.text.shown),g=os(h),b=0,w=n+p*.8;return m.forEach((C,O)=>{let{start:M}=h.groups[O];if(t.isPatch(h.text,M)||!this.holds(t,h.groups[O]))return;let q=g.get(M)?.textContent;q&&(w+=b>0?p:0,e.text(s,w,q,{size:12,fill:u.quiet}),[b,w]=[0,w+p]);let G=q?"":h.text.gaps[M],H=e.width(C,d)+8;b>0&&(G.includes(`
`)||b+H>r)?(b=0,w+=p):b>0&&G&&(b+=d*.16);let B=a>0&&O!==l?i[O]/a:0,be=x(u,B),$t=f?s+r-b-H:s+b,Ts=O===l?u.ink:void 0;e.rect($t,w-d*1.05,H,d*1.45,B?k(be):null,Ts,2,5);let Es=B?X(be):h.special(O)&&O!==l?u.quiet:u.ink;e.text($t+H/2,w,C,{size:d,fill:Es,align:"center",rtl:as.test(C)}),b+=H}),w+p*.5-n}};function Fe(o){let e=o.map(([s,n])=>`${E(s)} ${v(n)}`),t=e.pop()??"nothing";return e.length?`${e.join(", ")} and ${t}`:t}var ls=190,le=22,je=class{constructor(){this.headline=c("h1",{class:"answer"});this.choices=c("div",{class:"pair-choices"});this.names=[c("h2",{}),c("h2",{})];this.tops=[c("p",{class:"quiet"}),c("p",{class:"quiet"})];this.disputed=c("table",{class:"disputes"});this.matrix=c("div",{class:"wide matrix",tabindex:"0",role:"region","aria-label":"Agreement of measures"});this.leftOut=c("details",{class:"behind"});this.rowsShown=[];this.groups=[];this.order=c("p",{class:"quiet hint"});this.members=c("p",{class:"quiet members"});this.cell=10;this.left=ls;let e=()=>new te("The text: choose a target",{choose:s=>this.choose(s),close:s=>this.close(s),point:(s,n)=>this.point(s,n)});this.readings=[e(),e()],this.canvas=c("canvas",{role:"img",tabindex:"0",onmousemove:s=>this.over(s),onmouseleave:()=>this.context.actions.tip(null,[]),onclick:s=>this.pick(Math.floor(s.offsetY/le))}),this.table=I("Measures",()=>this.rows());let t=s=>c("section",{class:"pair-side"},this.names[s],this.readings[s].element,this.tops[s]);this.element=c("div",{class:"compare-view"},this.headline,this.choices,c("div",{class:"pair"},t(0),t(1)),c("h2",{},"Largest differences"),this.disputed,c("h2",{},"All measures for this target"),this.order,this.canvas,this.members,this.table,c("h2",{},"Rank agreement"),c("p",{class:"quiet hint"},"Spearman's rank correlation over all sources except the target itself."),this.matrix,this.leftOut)}choose(e){let{start:t,stop:s,segment:n}=this.context.sources.groups[e],{open:r}=this.context.state;if(n!==null)return this.context.actions.set({open:[...r,n]});if(this.context.current.square){for(let i=t;i<s;i++)if(this.context.current.holds(i))return this.context.actions.set({target:i,node:null})}}close(e){let t=this.context.state.open.filter(s=>s!==e);this.context.actions.set({open:t})}point(e,t){if(e===null||!t)return this.context.actions.tip(null,[]);let s=this.context.sources.label(e);this.context.actions.tip(t,[s,...this.pair().map(n=>`${this.context.name(n.measured)}: ${v(n.values[e])}`)])}pair(){let{state:e,measured:t}=this.context;return[e.map,e.other??e.map].map(s=>this.rowsShown.find(n=>n.measured===t[s])).filter(Boolean)}update(e){this.context=e,this.rowsShown=ze(e);let{state:t,measured:s}=e,n=Ne(e,this.rowsShown);if(!n){this.refuse();return}this.element.classList.remove("alone");let r=this.rowsShown.map(i=>s.indexOf(i.measured));(t.other===null||t.other===t.map||!r.includes(t.other))&&(t.other=s.indexOf(n.measured)),this.choices.replaceChildren(z(`Compare ${e.name(e.current)} with`,r.filter(i=>i!==t.map).map(i=>[String(i),e.name(s[i])]),String(t.other),i=>e.actions.set({other:Number(i)}))),this.sides(),this.headlines(),this.disputed.replaceChildren(...ns(e,this.pair())),this.groups=ss(e,this.rowsShown),this.explainOrder(),this.draw(),this.matrix.replaceChildren(rs(e,this.groups)),this.fillLeftOut(),W(this.table,()=>this.rows())}explainOrder(){let{context:e,groups:t}=this,s=e.cueGroup,n=s===null?`by their agreement with ${e.name(e.current)}`:`by the rank that they give ${E(T(e.sources.label(s)))}`;this.order.textContent=`Sorted ${n}. Each row is shaded by its own largest share. Hover over a cell for its number. Click a row to compare with it.`;let r=t.filter(a=>a.length>1);this.members.hidden=r.length===0;let i=r.map(a=>{let l=a.slice(1).map(h=>e.name(h.measured));return`${e.name(a[0].measured)} +${l.length}: ${l.join(", ")}`});this.members.textContent=`Measures with nearly the same ranking (correlation 0.95 or more) share a row. ${i.join(". ")}.`}refuse(){this.element.classList.add("alone"),this.rowsShown=[];let{measure:e}=this.context.current.entry;this.headline.textContent=`Only ${e} has this target on this page.`,this.choices.replaceChildren(c("p",{class:"quiet"},"To see where measures disagree, save a page with several measures of the same text: maps.to_html(path, *others), or mixlens compare … --html out.html."))}sides(){let{context:e}=this;this.pair().forEach(({measured:t,values:s},n)=>{let r=S(s,e.own);this.readings[n].show(e.sources,e),this.readings[n].shadeBy(e,s,r,e.own,!0),this.names[n].textContent=e.name(t);let i=$(s,e.own).slice(0,3).map(a=>[e.sources.label(a.group),a.value]);this.tops[n].textContent=`${t.depthName(e.depthFor(t))}: ${Fe(i)}`})}headlines(){let{context:e}=this,t=this.pair(),s=t.map(h=>h.values),n=ee(e,t[0],t[1]),r=ae(s,e.own)[0],i=c("b",{class:"outlined"},T(e.targets.label(e.targetGroup))),[a,l]=t.map(h=>e.name(h.measured));this.headline.replaceChildren("For ",i,`, ${a} and ${l} ${Re(n)} (rank correlation ${n.toFixed(2)})`),r&&this.headline.append("; they differ most on ",c("b",{},T(e.sources.label(r.group))),`: ${v(s[0][r.group])} against ${v(s[1][r.group])}.`)}draw(){let e=this.element.clientWidth||900,t=this.height(e);this.painted(L(this.canvas,e,t),this.context,0),this.canvas.setAttribute("aria-label",`${this.rowsShown.length} measures in ${this.groups.length} rows by ${this.context.sources.size} sources: the shares of the target, as a heat map. Click a row to compare with its measure.`)}height(e){return this.left=Math.min(ls,Math.round(e*.36)),this.cell=(e-this.left)/this.context.sources.size,this.groups.length*le+(this.cell>=13?74:6)}painted(e,t,s){let{palette:n,own:r,sources:i,state:a,measured:l}=t;this.groups.forEach((u,d)=>{let{values:p}=u[0],m=s+d*le,f=S(p,r)||1,g=[l[a.map],l[a.other??-1]],b=u.some(w=>g.includes(w.measured));e.text(this.left-10,m+15,A(e,`${He(d)}  ${xt(t,u)}`,13,this.left-16),{size:13,align:"right",fill:b?n.ink:n.quiet,weight:b?700:400});for(let w=0;w<i.size;w++){let C=w===r?0:p[w]/f;e.rect(this.left+w*this.cell,m,Math.max(this.cell-(this.cell>6?1:0),.6),le-2,k(x(n,C)))}});let h=s+this.groups.length*le;r>=0&&this.cell>=3&&e.rect(this.left+r*this.cell,s-.5,this.cell-1,h-s-1,null,n.ink,1.5,2),this.cell>=13&&i.groups.forEach((u,d)=>e.text(this.left+(d+.5)*this.cell+4,h+12,A(e,i.label(d),12,88),{size:12,rotate:-45,align:"right",fill:d===r?n.ink:n.quiet,weight:d===r?700:400}))}over(e){let t=this.groups[Math.floor(e.offsetY/le)],s=t?.[0],n=Math.floor((e.offsetX-this.left)/this.cell),r=s&&n>=0&&n<this.context.sources.size;this.canvas.style.cursor=s?"pointer":"",this.context.actions.tip(r?e:null,r?[`${E(this.context.sources.label(n))}: ${v(s.values[n])}`,t.map(i=>this.context.name(i.measured)).join(", ")]:[])}pick(e){let t=this.groups[e]?.[0]?.measured,s=t?this.context.measured.indexOf(t):-1;s>=0&&s!==this.context.state.map&&this.context.actions.set({other:s})}fillLeftOut(){let e=Object.entries(this.context.payload.left_out??{});this.leftOut.hidden=e.length===0,this.leftOut.replaceChildren(c("summary",{},`${e.length} measures left out`),c("dl",{},...e.flatMap(([t,s])=>[c("dt",{},t),c("dd",{},s)])))}paint(e,t,s){if(this.rowsShown.length<2)return 0;e.text(0,20,A(e,this.headline.textContent??"",16,s),{size:16,weight:600,fill:t.palette.ink});let n=40;this.pair().forEach(({measured:i,values:a},l)=>{e.text(0,n+14,t.name(i),{size:13,fill:t.palette.quiet}),n+=20+this.readings[l].paint(e,t,0,n+20,s,a,S(a,t.own),t.own)+10});let r=this.height(s);return this.painted(e,t,n),this.height(this.element.clientWidth||900),n+r}rows(){let{context:e,rowsShown:t}=this;return[["source",...t.map(s=>e.name(s.measured))],...e.sources.groups.map((s,n)=>[e.sources.label(n),...t.map(r=>r.values[n].toPrecision(3))])]}};function hs(o,e,t,s=o.entry.layers.length){let n=un(o),{start:r,stop:i}=e.groups[t],a=new Float64Array(e.of.length),l=0;for(let d=r;d<i;d++)l+=n[s][d];for(let d=r;d<i;d++)a[d]=l>0?1/l:0;let h=Array.from({length:s+1},()=>new Float64Array(e.size));for(let d=r;d<i;d++)h[s][t]+=a[d]*n[s][d];let u=[];for(let d=s-1;d>=0;d--){let p=new Float64Array(a.length),m=new Map;for(let f=0;f<a.length;f++){if(a[f]===0)continue;let g=a[f];o.eachTransition(d,f,(b,w)=>{p[b]+=g*w;let C=e.of[b]*e.size+e.of[f];m.set(C,(m.get(C)??0)+g*w*n[d][b])})}for(let[f,g]of m){let b=Math.floor(f/e.size);h[d][b]+=g,g>1e-4&&u.push({level:d,source:b,target:f%e.size,value:g})}a=p}return{levels:s+1,mass:h,edges:u}}function un(o){let e=o.sources.labels.length,t=[new Float64Array(e).fill(1)];return o.entry.layers.forEach((s,n)=>{let r=new Float64Array(e).fill(o.entry.joined?.normalise===!1?0:1);if(o.entry.joined?.normalise===!1)for(let i=0;i<e;i++)o.eachTransition(n,i,(a,l)=>{r[i]+=l*t[n][a]});t.push(r)}),t}function cs(o,e,t){let s=[],n=o.mass.map(()=>[]);for(let i of o.edges)n[i.level].push(i);let r=new Float64Array(o.mass[e].length);r[t]=o.mass[e][t];for(let i=e-1;i>=0;i--){let a=new Float64Array(r.length);for(let l of n[i]){let h=o.mass[i+1][l.target],u=h>0?l.value*r[l.target]/h:0;u>0&&s.push({...l,value:u}),a[l.source]+=u}r=a}r=new Float64Array(r.length),r[t]=o.mass[e][t];for(let i=e;i<o.levels-1;i++){let a=new Float64Array(r.length);for(let l of n[i]){let h=o.mass[i][l.source],u=h>0?l.value*r[l.source]/h:0;u>0&&s.push({...l,value:u}),a[l.target]+=u}r=a}return s}var V=64,us=40,ds=92,dn=1200,De=class{constructor(){this.words=c("p",{class:"quiet","aria-live":"polite"});this.shown=c("output",{});this.flow=null;this.key="";this.width=0;this.step=54;this.at=null;this.canvas=N({over:e=>this.over(e),leave:()=>this.leave(),choose:()=>this.trace(),step:(e,t)=>this.walk(e,t)}),this.slider=c("input",{type:"range",min:"0",max:"100",step:"1","aria-label":"Smallest share that is drawn",oninput:()=>this.context.actions.set({threshold:pn(Number(this.slider.value))})}),this.controls=c("label",{class:"field"},c("span",{},"Smallest share"),this.slider,this.shown),this.table=I("Flow",()=>this.rows()),this.element=c("div",{class:"flow-view"},c("div",{class:"bar-line"},this.words,this.controls),this.canvas,this.table)}update(e){this.context=e;let{current:t,state:s,targets:n}=e,r=this.refusal();if(this.canvas.hidden=this.table.hidden=this.controls.hidden=r!==null,r!==null){this.words.textContent=r;return}let i=this.depth(),a=[s.map,s.target,s.unit,s.open,n.size,i].join(" ");a!==this.key&&(this.key=a,this.flow=hs(t,n,n.of[s.target],i)),this.slider.value=String(mn(s.threshold)),this.shown.textContent=v(s.threshold),this.canvas.setAttribute("aria-label","The flow from the input tokens to the target. Arrow keys move between tokens and layers, Enter traces one."),this.draw(),W(this.table,()=>this.rows())}depth(){let{state:e,current:t}=this.context,s=typeof e.depth=="number"?e.depth:D(e.depth);return s===null?t.entry.layers.length:s+1}refusal(){let{current:e,targets:t}=this.context;return e.entry.reaches_input?`Each layer of ${e.entry.measure} already refers to the input tokens, so there is no flow to show.`:!e.whole||!e.entry.joined?"The flow needs the maps of all layers and all targets of one text. These maps have only some targets or layers, or two texts.":t.size>dn?"The text is too long for this view. Choose words or segments above.":null}edges(){let{node:e,threshold:t}=this.context.state,s=this.flow;return(e&&e[0]<s.levels&&e[1]<this.context.targets.size?cs(s,e[0],e[1]):s.edges).filter(i=>i.value>=t).sort((i,a)=>i.value-a.value)}x(e){return V+(e+.5)*(this.width-V-12)/this.context.targets.size}y(e){return us+(this.flow.levels-1-e)*this.step}draw(){if(this.canvas.hidden||!this.flow)return;this.width=this.element.clientWidth||900,this.step=this.flow.levels>14?34:56;let e=this.y(0)+ds,t=L(this.canvas,this.width,e);this.painted(t,this.context)}painted(e,t){let{palette:s,state:n,targets:r,current:i}=t,a=this.flow,l=this.edges(),h=i.entry.layers;for(let M=0;M<a.levels;M++){let q=M===0?"input":`${M===a.levels-1?"layer ":""}${h[M-1]}`;e.text(V-12,this.y(M)+4,q,{size:12,fill:s.quiet,align:"right"}),e.rect(V,this.y(M),this.width-V-12,.5,s.line)}let u=k(x(s,.78)),d=new Map,p=n.node&&a.mass[n.node[0]]?.[n.node[1]]||1;for(let M of l){let q=M.value/p,G=Math.max(.8,15*q);e.curve(this.x(M.source),this.y(M.level),this.x(M.target),this.y(M.level+1),G,u,Math.min(.9,.22+1.6*q));for(let[H,B]of[[M.level,M.source],[M.level+1,M.target]])d.set(`${H} ${B}`,a.mass[H][B])}let m=a.levels-1,f=r.of[n.target];d.set(`${m} ${f}`,1);for(let[M,q]of d){let[G,H]=M.split(" ").map(Number),B=n.node?.[0]===G&&n.node[1]===H,be=this.at?.[0]===G&&this.at[1]===H;e.circle(this.x(H),this.y(G),2.5+5.5*Math.sqrt(q),u,B||be?s.ink:s.paper)}let g=e.width(r.label(f),14,700)/2,b=Math.max(g,Math.min(this.width-g-2,this.x(f)));e.text(b,this.y(m)-16,r.label(f),{size:14,weight:700,fill:s.ink,align:"center"}),this.inputs(e,t,d);let w=n.node?` through ${E(r.label(n.node[1]))} at ${qe(n.node[0],h)}`:"",C=E(r.label(f)),O=n.node?a.mass[n.node[0]]?.[n.node[1]]??0:0;this.words.textContent=w?`${v(O)} of ${C} passes${w}. Click the point again to see the whole flow.`:`The flow to ${C}, from the input (bottom) to ${m===h.length?"the last layer":`layer ${h[m-1]}`} (top). Click a point to trace the flow through it.`}inputs(e,t,s){let{palette:n,targets:r}=t,i=(this.width-V)/r.size,a=r.groups.map((h,u)=>u).sort((h,u)=>this.flow.mass[0][u]-this.flow.mass[0][h]),l=[];for(let h of a){let u=this.x(h),d=s.has(`0 ${h}`);if(i<15&&(!d||l.some(m=>Math.abs(m-u)<15)))continue;l.push(u);let p=A(e,r.label(h),12,84);e.text(u+4,this.y(0)+18,p,{size:12,rotate:-50,align:"right",fill:d?n.ink:n.quiet,weight:d?600:400})}}over(e){let t=this.flow,s=t.levels-1-Math.round((e.offsetY-us)/this.step),n=Math.round((e.offsetX-V)*this.context.targets.size/(this.width-V-12)-.5),r=s>=0&&s<t.levels&&n>=0&&n<this.context.targets.size;this.at=r?[s,n]:null,this.canvas.style.cursor=r?"pointer":"",this.context.actions.tip(r?e:null,this.sentence()),this.draw()}sentence(){if(!this.at)return[];let[e,t]=this.at,{context:s}=this,n=s.targets.label(s.targets.of[s.state.target]),{layers:r}=s.current.entry;return[`${E(s.targets.label(t))} at ${qe(e,r)}`,`${v(this.flow.mass[e][t])} of ${n} passes here`]}trace(){if(!this.at)return;let{node:e}=this.context.state,t=e&&e[0]===this.at[0]&&e[1]===this.at[1];this.context.actions.set({node:t?null:[...this.at]})}leave(){this.at=null,this.context.actions.tip(null,[]),this.draw()}walk(e,t){let{context:s}=this,[n,r]=this.at??[this.flow.levels-1,s.targets.of[s.state.target]];this.at=[P(n-t,this.flow.levels),P(r+e,s.targets.size)],s.actions.announce(this.sentence().join(", ")),this.draw()}paint(e,t,s){if(!this.flow||this.canvas.hidden)return 0;this.width=s,this.painted(e,t);let n=this.y(0)+ds;return this.draw(),n}rows(){let{context:e}=this,t=e.current.entry.layers;return[["from","source","to","target","share of the target"],...this.edges().reverse().map(s=>[qe(s.level,t),e.targets.label(s.source),qe(s.level+1,t),e.targets.label(s.target),s.value.toPrecision(3)])]}};function qe(o,e){return o===0?"the input":`layer ${e[o-1]}`}function pn(o){return Number((.001*500**(o/100)).toPrecision(2))}function mn(o){return Math.round(Math.log(Math.max(o,.001)/.001)/Math.log(500)*100)}var Ie=255,ps=new Map;function fn(o){let e=ps.get(o);if(!e){e=new Uint32Array(2*Ie+1);for(let t=0;t<e.length;t++){let[s,n,r]=x(o,(t-Ie)/Ie);e[t]=(255<<24|r<<16|n<<8|s)>>>0}ps.set(o,e)}return e}function he(o,e,t,s,n){let r=document.createElement("canvas");r.width=s,r.height=t;let i=r.getContext("2d"),a=i.createImageData(s,t),l=new Uint32Array(a.data.buffer),h=fn(o);for(let u=0;u<e.length;u++){let d=Math.max(-1,Math.min(1,e[u]/n));l[u]=h[Math.round((d+1)*Ie)]}return i.putImageData(a,0,0),r}function fe(o,e,t){let s=1e-12;for(let n=0;n<o.length;n++)t&&Math.floor(n/e)===n%e||(s=Math.max(s,Math.abs(o[n])));return s}var ce=58,We=24,J=6,gn=400,_e=class{constructor(){this.words=c("p",{class:"quiet"});this.tile=64;this.pictures=[];this.key="";this.at=null;this.canvas=N({over:e=>this.over(e),leave:()=>this.pointAt(null,null),choose:()=>this.enter(),step:(e,t)=>this.walk(e,t)}),this.table=I("Heads",()=>this.rows()),this.whole=c("button",{type:"button",onclick:()=>this.context.actions.set({head:null})},"Back to whole layers"),this.element=c("div",{class:"heads-view"},c("div",{class:"bar-line"},this.words,this.whole),this.canvas,this.table)}update(e){this.context=e;let{current:t,measured:s}=e,n=a=>a.heads>0&&a.targets===t.targets&&a.sources===t.sources;this.shown=t.heads?t:s.find(n)??t;let r=this.shown.heads===0;if(this.canvas.hidden=this.table.hidden=r,this.whole.hidden=e.state.head===null,r){let a=t.entry.notes?.find(l=>l.includes("heads are left out"));this.words.textContent=a??`This page has no maps of single heads. To add them, also pass lens.measure("${t.entry.measure}", text, per_head=True).`;return}let i=this.shown===t?"":`The page has no single heads of ${e.name(t)}. These are the heads of ${e.name(this.shown)}. `;this.words.textContent=`${i}Rows are layers, columns are heads. Each small map has targets as rows and sources as columns, shaded by its own largest share. Click a head to open it.`,this.prepare(),this.canvas.setAttribute("aria-label",`${this.shown.entry.layers.length} layers by ${this.shown.heads} heads. Arrow keys move, Enter opens a head.`),this.draw(),W(this.table,()=>this.rows())}prepare(){let{context:e,shown:t}=this,{targets:s,sources:n,palette:r,state:i}=e,a=[e.measured.indexOf(t),r.dark,s.size,n.size,i.unit,i.hide].join(" ");if(a===this.key)return;this.key=a;let l=[...new Set(t.held.map(h=>s.of[h]))].sort((h,u)=>h-u).slice(0,gn);this.pictures=t.entry.layers.flatMap((h,u)=>Array.from({length:t.heads},(d,p)=>{let m=new Float32Array(l.length*n.size);l.forEach((g,b)=>m.set(t.incoming({depth:u,head:p},s,g,n),b*n.size));let f=fe(m,n.size,t.square&&l.length===n.size);return he(r,m,l.length,n.size,f)}))}size(e){let{heads:t,entry:s}=this.shown;return this.tile=Math.max(18,Math.min(132,(e-ce)/t-J)),[ce+t*(this.tile+J),We+s.layers.length*(this.tile+J)]}draw(){if(this.canvas.hidden)return;let[e,t]=this.size(this.element.clientWidth||900);this.painted(L(this.canvas,e,t),this.context)}painted(e,t){let{palette:s,state:n}=t,{tile:r,shown:i}=this,a={size:12,fill:s.quiet};for(let l=0;l<i.heads;l++)e.text(ce+l*(r+J)+r/2,We-9,l===0?"head 0":String(l),{...a,align:"center"});i.entry.layers.forEach((l,h)=>{let u=We+h*(r+J);e.text(ce-10,u+r/2+4,h===0?`layer ${l}`:String(l),{...a,align:"right"});for(let d=0;d<i.heads;d++){let p=ce+d*(r+J);e.image(this.pictures[h*i.heads+d],p,u,r,r);let f=i===t.current&&n.head===d&&n.depth===h,g=this.at?.[0]===h&&this.at[1]===d;e.rect(p,u,r,r,null,f||g?s.ink:s.line,f?3:g?2:1)}})}over(e){let t=Math.floor((e.offsetX-ce)/(this.tile+J)),s=Math.floor((e.offsetY-We)/(this.tile+J)),{heads:n,entry:r}=this.shown,i=t>=0&&s>=0&&t<n&&s<r.layers.length;this.pointAt(i?[s,t]:null,e)}pointAt(e,t){this.at=e,this.canvas.style.cursor=e?"pointer":"",this.context.actions.tip(e?t:null,this.sentence()),this.draw()}sentence(){if(!this.at)return[];let[e,t]=this.at,{context:s}=this,n=s.incoming(this.shown,{depth:e,head:t}),r=$(n,s.own).slice(0,3),i=s.targets.label(s.targetGroup);return[`Layer ${this.shown.entry.layers[e]}, head ${t}`,...r.map(({group:a,value:l})=>`${E(s.sources.label(a))}: ${v(l)} of ${E(i)}`)]}enter(){if(!this.at)return;let e=this.context.measured.indexOf(this.shown);this.context.actions.set({map:e,depth:this.at[0],head:this.at[1],view:"map"})}walk(e,t){let[s,n]=this.at??[0,-1],{entry:r,heads:i}=this.shown;this.at=[P(s+t,r.layers.length),P(n+e,i)],this.context.actions.announce(this.sentence().join(", ")),this.draw()}paint(e,t,s){if(!this.shown.heads)return 0;this.prepare();let[,n]=this.size(s);return this.painted(e,t),n}rows(){let{context:e,shown:t}=this,s=e.targets.label(e.targetGroup),n=[["layer","head","target","largest source","share"]];return t.entry.layers.forEach((r,i)=>{for(let a=0;a<t.heads;a++){let l=e.incoming(t,{depth:i,head:a}),h=$(l,e.own)[0];n.push([String(r),String(a),s,h?e.sources.label(h.group):"",S(l,e.own).toPrecision(3)])}}),n}};function Ge(o,e,t){let s=c("span",{class:"ramp"}),n=t?-5:0,r=Array.from({length:6-n},(i,a)=>k(x(o,(a+n)/5)));return s.style.backgroundImage=`linear-gradient(to right, ${r.join(", ")})`,[c("span",{},t?v(-e):"0 %"),s,c("span",{},v(e))]}var bn=2500,y=108,kt=10,Be=class{constructor(){this.spacer=c("div",{class:"spacer"});this.words=c("p",{class:"quiet"});this.legend=c("p",{class:"legend"});this.values=new Float32Array;this.picture=null;this.key="";this.cell=16;this.zoom=1;this.at=null;this.canvas=N({over:t=>this.over(t),leave:()=>this.moved(null,null),choose:()=>this.choose(),step:(t,s)=>this.walk(t,s)}),this.scroller=c("div",{class:"scroller",onscroll:()=>this.draw()},this.canvas,this.spacer),this.table=I("Map",()=>this.rows());let e=c("label",{class:"field"},c("span",{},"Zoom"),c("input",{type:"range",min:"1",max:"12",step:"0.5",value:"1",oninput:t=>{this.zoom=Number(t.target.value),this.layout()}}));this.element=c("div",{class:"map-view"},c("div",{class:"bar-line"},this.words,e),this.legend,this.scroller,this.table)}update(e){this.context=e;let{targets:t,sources:s,current:n,state:r}=e,i=this.held();if(Math.max(i.length,s.size)>bn){this.words.textContent=`This map is too large to show (${i.length} × ${s.size} cells). Choose words or segments above.`,this.scroller.hidden=this.legend.hidden=!0;return}this.scroller.hidden=this.legend.hidden=!1;let a=[r.map,r.depth,r.head,e.palette.dark,t.size,s.size,r.unit,r.open,r.hide].join(" ");if(a!==this.key){this.key=a;let l=new Float32Array(i.length*s.size);i.forEach((u,d)=>l.set(n.incoming(e.choice,t,u,s),d*s.size)),this.values=l;let h=fe(l,s.size,n.square&&i.length===s.size);this.picture=he(e.palette,l,i.length,s.size,h),this.words.textContent="Rows are targets, columns are sources. Click a row to choose its target.",this.legend.replaceChildren(...Ge(e.palette,h,n.entry.signed),c("span",{class:"quiet"},vn(n.square)))}this.canvas.setAttribute("aria-label",`Map of ${i.length} targets by ${s.size} sources. Arrow keys move, Enter chooses the target.`),this.layout(),W(this.table,()=>this.rows())}held(){let{targets:e,current:t}=this.context;return[...new Set(t.held.map(n=>e.of[n]))].sort((n,r)=>n-r)}layout(){if(this.scroller.hidden)return;let{sources:e}=this.context,t=this.held().length,s=Math.max(200,this.scroller.clientWidth||900)-y-16,n=Math.max(240,window.innerHeight*.7)-y,r=Math.min(44,s/e.size,Math.max(n/t,7));this.cell=Math.max(r,1)*this.zoom;let[i,a]=[e.size*this.cell+y+kt,t*this.cell+y+kt],l=Math.max(320,window.innerHeight*.78);this.scroller.style.height=`${Math.min(a+18,l)}px`,this.spacer.style.width=`${i}px`,this.spacer.style.height=`${a}px`,this.draw()}draw(){let e=this.scroller.clientWidth,t=this.scroller.clientHeight;if(!e||!this.picture)return;let s=L(this.canvas,e,t);this.painted(s,this.context,this.cell,this.scroller.scrollLeft,this.scroller.scrollTop,e,t)}painted(e,t,s,n,r,i,a){let{palette:l,sources:h,targets:u}=t,d=this.held();e.image(this.picture,y-n,y-r,h.size*s,d.length*s);let p=d.indexOf(t.targets.of[t.state.target]);if(p>=0&&e.rect(y-n,y-r+p*s,h.size*s,Math.max(s,2),null,l.ink,1.5),this.at){let[f,g]=this.at;e.rect(y-n+g*s,y-r+f*s,Math.max(s,2),Math.max(s,2),null,l.ink,2)}e.rect(0,0,y-2,a,l.paper),e.rect(0,0,i,y-2,l.paper);let m=Math.max(1,Math.ceil(12/s));this.names(e,u,d,m,s,(f,g,b)=>{let w=y-r+(f+.5)*s;w>y-4&&w<a&&e.text(y-8,w+4,A(e,g,12,y-14),{size:12,align:"right",fill:b?l.ink:l.quiet,weight:b?700:400})},this.at?.[0]??-1,p),this.names(e,h,h.groups.map((f,g)=>g),m,s,(f,g,b)=>{let w=y-n+(f+.5)*s;w>y-4&&w<i&&e.text(w+4,y-8,A(e,g,12,y+6),{size:12,rotate:-60,fill:b?l.ink:l.quiet,weight:b?700:400})},this.at?.[1]??-1,-1),e.rect(0,0,y-14,y-30,l.paper)}names(e,t,s,n,r,i,a,l){s.forEach((h,u)=>{let d=a>=0&&Math.abs(u-a)*r<12&&u!==a;(u===a||u===l||u%n===0&&!d)&&i(u,t.label(h),u===a||u===l)})}over(e){let t=Math.floor((e.offsetX-y+this.scroller.scrollLeft)/this.cell),s=Math.floor((e.offsetY-y+this.scroller.scrollTop)/this.cell),n=e.offsetX>=y&&e.offsetY>=y&&s<this.held().length&&t<this.context.sources.size;this.moved(n?[s,t]:null,e)}moved(e,t){this.at=e;let s=this.sentence();this.context.actions.tip(e?t:null,s),this.canvas.style.cursor=e?"pointer":"",this.draw()}sentence(){if(!this.at)return[];let{context:e}=this,[t,s]=this.at,n=this.held()[t],r=this.values[t*e.sources.size+s],i=e.current.total(e.choice,e.targets.groups[n].start),a=[`${E(e.sources.label(s))} → ${E(e.targets.label(n))}`,v(r)];return i!==null&&e.state.unit==="tokens"&&a.push(`score ${(r*i).toPrecision(3)}`),a}choose(){if(!this.at)return;let{start:e,stop:t}=this.context.targets.groups[this.held()[this.at[0]]];for(let s=e;s<t;s++)if(this.context.current.holds(s))return this.context.actions.set({target:s,node:null})}walk(e,t){let[s,n]=this.at??[0,-1];this.at=[P(s+t,this.held().length),P(n+e,this.context.sources.size)],this.context.actions.announce(this.sentence().join(", ")),this.draw()}paint(e,t,s){let{sources:n}=t,r=this.held().length,i=Math.min(28,Math.max(1,(s-y)/n.size)),a=this.at;this.at=null;let l=r*i+y;if(n.size*r<=4e3){this.painted(e,t,i,0,0,s,l+2),this.cells(e,t,i,r);let h=this.held().indexOf(t.targets.of[t.state.target]),[u,d]=[y+h*i,n.size*i];h>=0&&e.rect(y,u,d,i,null,t.palette.ink,1.5)}else this.painted(e,t,i,0,0,s,l+2);return this.at=a,l+kt}cells(e,t,s,n){let r=t.sources.size,i=fe(this.values,r,t.current.square&&n===r);for(let a=0;a<this.values.length;a++){let l=Math.max(-1,Math.min(1,this.values[a]/i));e.rect(y+a%r*s,y+Math.floor(a/r)*s,s-.5,s-.5,k(x(t.palette,l)))}}rows(){let{context:e}=this,t=e.sources.size;return[["target",...e.sources.groups.map((s,n)=>e.sources.label(n))],...this.held().map((s,n)=>[e.targets.label(s),...Array.from(this.values.subarray(n*t,(n+1)*t),r=>r.toPrecision(3))])]}},vn=o=>`share of the target${o?" · the largest share off the diagonal has the strongest colour":""}`;function ms(o,e){let t=Object.entries(o.evaluations),[s,...n]=o.verdict.split(`
`),r=c("tr",{},c("th",{scope:"col"},"measure"),c("th",{scope:"col"},"mean rank"),...t.map(([a,{direction:l}])=>c("th",{scope:"col"},a.replaceAll("_"," "),c("small",{},l==="neither"?"":`${l} is better`)))),i=o.measures.map(({measure:a,mean_rank:l})=>c("tr",{class:a==="random"?"baseline":null},c("th",{scope:"row"},a),c("td",{},Ue(l)),...t.map(([,{measures:h}])=>wn(h[a],Object.values(h),e,a==="random"))));return c("div",{class:"ranking-view"},c("h1",{class:"answer"},s??""),...n.map(a=>c("p",{},a)),c("p",{class:"quiet hint"},`Results over ${o.texts} texts. Each dot lies between the lowest and the highest value of its column; the line is the 95 % interval. Bold marks the best measure, grey italics a measure that is not better than random scores.`),c("div",{class:"wide",tabindex:"0",role:"region","aria-label":"Ranked measures"},c("table",{class:"ranks"},c("thead",{},r),c("tbody",{},...i))),c("h2",{},"Evaluations"),c("dl",{},...t.flatMap(([a,{summary:l}])=>[c("dt",{},a.replaceAll("_"," ")),c("dd",{},l)])))}function Ue(o){return o==null?"–":o.toFixed(2).replace("-","−")}function wn(o,e,t,s){if(!o||o.value===null)return c("td",{},"–");let n=e.flatMap(m=>[m.low,m.high,m.value]).filter(m=>m!==null),[r,i]=[Math.min(...n),Math.max(...n)],a=m=>i>r?(m-r)/(i-r)*100:50,l=c("span",{class:"interval"});l.style.left=`${a(o.low??o.value)}%`,l.style.width=`${a(o.high??o.value)-a(o.low??o.value)}%`;let h=c("span",{class:"dot"});h.style.left=`${a(o.value)}%`;let u=s||o.not_better_than_random;h.style.backgroundColor=u?t.quiet:k(x(t,.75));let d=o.is_best?"best":o.not_better_than_random?"luck":null,p=o.low===null?"":`${Ue(o.low)} to ${Ue(o.high)}`;return c("td",{class:d,title:p},Ue(o.value),c("span",{class:"scale","aria-hidden":"true"},l,h))}var fs=3;function gs(o){return[yn(o),kn(o)].filter(e=>e!==null)}function xn(o){let{current:e,state:t}=o,{targets:s}=o,n=o.fine(e.sources),r=s.of[t.target],i=e.square?n.of[t.target]:-1,a=new Map;return e.entry.layers.forEach((l,h)=>{let u=e.incoming({depth:h,head:t.head},s,r,n);for(let d of $(u,i).slice(0,fs))Math.abs(d.value)>Math.abs(a.get(d.group)?.value??0)&&a.set(d.group,{label:n.label(d.group),layer:l,value:d.value})}),[...a.values()].sort((l,h)=>Math.abs(h.value)-Math.abs(l.value)).slice(0,fs)}function yn(o){let{entry:e}=o.current,t=e.layers.length>1?xn(o):[];if(!t.length)return null;let s=t.map(({label:n,layer:r,value:i})=>[c("b",{},T(n)),` (${v(i)} ${e.reaches_input?"up to":"in"} layer ${r})`]);return c("p",{},"Largest contributions: ",...ke(s),".")}function kn(o){let e=ze(o),t=Ne(o,e),s=e.find(p=>p.measured===o.current);if(!t||!s)return null;let n=ee(o,s,t),r=e.length-1,i=c("b",{},o.name(t.measured)),a=` (rank correlation ${n.toFixed(2).replace("-","−")})`,l=r===1?[i,` ${Re(n).replace("agree","agrees")}${a}`]:[`Of ${r} other measures, `,i,` agrees least${a}`],h=ae([s.values,t.values],o.own)[0];h&&l.push(...Mn(o,h.group,s.values,t.values));let u=o.measured.indexOf(t.measured),d=()=>o.actions.set({view:"compare",other:u});return c("p",{},...l,". ",c("button",{type:"button",class:"link",onclick:d},"Compare"))}function Mn(o,e,t,s){let n=c("b",{},T(o.sources.label(e))),r=` ${v(s[e])} instead of ${v(t[e])}`;return["; it differs most on ",n,`:${r}`]}var j=64,Tn=7,Ve=o=>o.depth==="all"||o.depth==="mean",Je=class{constructor(){this.name=c("h2",{});this.other=c("button",{type:"button",class:"turn",onclick:()=>this.turn()});this.strips=[];this.rowHeight=18;this.cell=1;this.canvas=c("canvas",{tabindex:"0",role:"img",onmousemove:e=>this.over(e),onmouseleave:()=>this.context.actions.tip(null,[]),onclick:e=>this.choose(this.hit(e)?.strip??-1),onkeydown:e=>this.key(e)}),this.table=I("Layers",()=>this.rows()),this.element=c("section",{class:"layers","aria-label":"Layer by layer"},c("div",{class:"layers-head"},this.name,this.other),this.canvas,this.table)}update(e){this.context=e;let{current:t}=e;if(this.element.hidden=t.entry.layers.length<2,this.element.hidden)return;let s=this.joined(),n=s?[...t.upTo]:t.entry.layers.map((h,u)=>u);n.push(...this.summaries(s)),this.strips=n.map(h=>({depth:h,name:h==="all"||h==="mean"?this.summaryName(h):String(t.entry.layers[D(h)??Number(h)]),values:e.incoming(t,{depth:h,head:typeof h=="number"?e.state.head:null})}));let r=this.element.clientWidth||640,i=this.height(r);this.draw(L(this.canvas,r,i),r);let a=e.targets.label(e.targetGroup),l=s?" up to each layer":" in each layer";this.name.replaceChildren("Sources of ",c("b",{},T(a)),l),this.other.hidden=t.upTo.length===0,this.other.textContent=s?"Single layers":"Up to each layer",this.canvas.setAttribute("aria-label",`Sources of ${E(a)}${l}, as a heat map: ${this.strips.length} rows, ${e.sources.size} columns. Arrow keys up and down choose a layer.`),W(this.table,()=>this.rows())}summaryName(e){let t=this.context.current.entry.joined?.how.replace(/\(.*/,"")??"";return e==="mean"?"mean":t||"all"}summaries(e){let{current:t,state:s}=this.context,n=["mean","all"].filter(i=>t.depths.includes(i)),r=e?"all":n[0];return n.filter(i=>i===r||i===s.depth)}joined(){let{state:e,current:t}=this.context;return typeof e.depth=="number"||!t.upTo.length?!1:e.rows==="upto"||D(e.depth)!==null}turn(){let{state:e,actions:t}=this.context,s=this.joined(),{depth:n}=e,r=typeof n=="number"?n:D(n),i=this.context.current.entry.layers.length-1,a=r===null||r===i?"all":`to${r}`;t.set({rows:s?"each":"upto",head:null,depth:s?r??this.context.current.defaultDepth:a})}height(e){let t=this.strips.length;return this.rowHeight=t>40?7:t>16?11:18,this.cell=(e-j)/this.context.sources.size,this.top(t)+this.labels(e)}top(e){let t=this.strips.findIndex(Ve);return e*this.rowHeight+(t>=0&&e>=t?Tn:0)}labels(e){return this.cell<13?this.context.current.sources.seconds?18:4:this.slanted(e)?74:20}slanted(e){let t=new Q(this.canvas.getContext("2d")),s=(e-j)/this.context.sources.size;return this.context.sources.groups.some((n,r)=>t.width(this.context.sources.label(r),12)>s-4)}draw(e,t,s=0){let{context:n,strips:r,rowHeight:i}=this,{palette:a,own:l,state:h}=n,u=r.filter(p=>!Ve(p)),d=Math.max(1e-12,...u.map(p=>S(p.values,l)));r.forEach((p,m)=>{let f=s+this.top(m),g=p.depth===h.depth,b=Ve(p)?Math.max(1e-12,S(p.values,l)):d,w=i>=13?1:i>=10?2:4;(m%w===0||g||Ve(p))&&e.text(j-10,f+i/2+4,`${m===0?this.joined()?"up to ":"layer ":""}${p.name}`,{size:12,fill:g?a.ink:a.quiet,weight:g?700:400,align:"right"}),this.cells(e,p.values,l,b,f),g&&e.rect(j-1,f-1,t-j+1,i+.5,null,a.ink,1.5,3)}),this.drawColumns(e,t,s)}cells(e,t,s,n,r){let{context:i,cell:a,rowHeight:l}=this,h=m=>Math.max(-1,Math.min(1,m/n));if(a>=6){t.forEach((m,f)=>{let g=k(x(i.palette,h(m)));e.rect(j+f*a,r,a-1,l-1.5,g)});return}let u=Math.max(1,Math.round(1.5/a)),d=new Float32Array(Math.ceil(t.length/u));t.forEach((m,f)=>{let g=Math.floor(f/u);f!==s&&Math.abs(m)>Math.abs(d[g])&&(d[g]=m)});let p=he(i.palette,d,1,d.length,n);e.image(p,j,r,a*u*d.length,l-1.5)}drawColumns(e,t,s){let{context:n,cell:r}=this,{palette:i,own:a,sources:l}=n,h=s+this.top(this.strips.length)-1,u=n.current.sources.seconds;if(u){let p=Mt(u*l.size);for(let m=0;m<=u*l.size;m+=p)e.text(j+m/u*r,h+14,`${Number(m.toFixed(2))} s`,{size:11,fill:i.quiet,align:m+p>u*l.size?"right":m?"center":"left"});return}if(a>=0&&r>=3&&e.rect(j+a*r-.5,s-.5,r,h-s+.5,null,i.ink,1.5,2),r<13)return;let d=this.slanted(t);l.groups.forEach((p,m)=>{let f=j+(m+.5)*r,g={size:12,fill:m===a?i.ink:i.quiet,weight:m===a?700:400},b=A(e,l.label(m),12,d?88:r);d?e.text(f+4,h+12,b,{...g,align:"right",rotate:-45}):e.text(f,h+15,b,{...g,align:"center"})})}hit(e){let t=this.strips.findIndex((n,r)=>e.offsetY>=this.top(r)&&e.offsetY<this.top(r)+this.rowHeight),s=Math.floor((e.offsetX-j)/this.cell);return t<0?null:{strip:t,group:s>=0&&s<this.context.sources.size?s:-1}}over(e){let t=this.hit(e);if(this.canvas.style.cursor=t?"pointer":"",!t||t.group<0)return this.context.actions.tip(null,[]);let{strip:s,group:n}=t,{context:r}=this,i=this.strips[s].values[n],a=r.targets.label(r.targetGroup);r.actions.tip(e,[`${E(r.sources.label(n))}: ${v(i)} of ${E(a)}`,r.current.depthName(this.strips[s].depth)])}choose(e){let t=this.strips[e]?.depth;t!==void 0&&this.context.actions.set({depth:t,head:typeof t=="number"?this.context.state.head:null})}key(e){let t={ArrowUp:-1,ArrowDown:1}[e.key];if(!t)return;e.preventDefault();let s=this.strips.findIndex(r=>r.depth===this.context.state.depth),n=Math.max(0,Math.min(this.strips.length-1,s+t));this.choose(n),this.context.actions.announce(this.context.current.depthName(this.strips[n].depth))}paint(e,t,s,n){if(this.element.hidden)return 0;let r=this.height(n);return this.draw(e,n,s),r}rows(){let{sources:e}=this.context;return[["source",...this.strips.map(t=>this.context.current.depthName(t.depth))],...e.groups.map((t,s)=>[e.label(s),...this.strips.map(n=>n.values[s].toPrecision(3))])]}};function Mt(o){let e=o/6,t=10**Math.floor(Math.log10(e));return([1,2,5,10].find(s=>s*t>=e)??10)*t}var K=120,bs=22,Ke=class{constructor(){this.context=null;this.values=[];this.scale=0;this.at=null;this.canvas=N({over:e=>this.over(e),leave:()=>this.pointAt(null,null),choose:()=>this.choose(),step:e=>this.walk(e)}),this.canvas.setAttribute("aria-label","The share of each frame over time; the ranked list has the numbers. Arrow keys move, Enter chooses a frame."),this.element=c("figure",{class:"strip"},this.canvas)}show(e,t,s){e.current.sources.seconds&&(Object.assign(this,{context:e,values:t,scale:s}),this.draw())}draw(){if(!this.context)return;let e=this.element.clientWidth||640;this.painted(L(this.canvas,e,K+bs),this.context,0,0,e)}painted(e,t,s,n,r){let{palette:i}=t,a=t.current.sources.seconds,l=r/this.values.length;for(let d=0;d<this.values.length;d++){let p=this.scale>0?this.values[d]/this.scale:0,m=Math.max(1,Math.abs(p)*K),f=k(x(i,.25*Math.sign(p||1)+.75*p)),g=Math.max(l-(l>4?1:0),.7);d===t.own?e.rect(s+d*l-1,n,g+2,K,null,i.ink):d===this.at&&e.rect(s+d*l,n,g,K,i.band),d!==t.own&&e.rect(s+d*l,n+K-m,g,m,f)}e.rect(s,n+K,r,1,i.quiet);let h=a*this.values.length,u=Mt(h);for(let d=0;d<=h+1e-9;d+=u)e.text(s+d/h*r,n+K+16,`${Number(d.toFixed(2))} s`,{size:12,fill:i.quiet,align:d===0?"left":d+u>h?"right":"center"})}over(e){let t=Math.floor(e.offsetX/this.canvas.clientWidth*this.values.length);this.pointAt(P(t,this.values.length),e)}pointAt(e,t){this.at=e,this.context?.actions.tip(t,this.words()),this.draw()}words(){let{context:e,at:t}=this;return!e||t===null?[]:[e.sources.label(t),`${v(this.values[t])} of the target`]}choose(){let{context:e,at:t}=this;if(!e||t===null||!e.current.square)return;let{start:s}=e.sources.groups[t];e.current.holds(s)&&e.actions.set({target:s,node:null})}walk(e){this.pointAt(P(this.at===null?0:this.at+e,this.values.length),null),this.context?.actions.announce(this.words().join(", "))}paint(e,t,s,n,r,i,a){return Object.assign(this,{values:i,scale:a}),this.painted(e,t,s,n,r),K+bs}};var Ye=12,En=6,Xe=class{constructor(){this.answer=c("h1",{class:"answer"});this.facts=c("div",{class:"facts"});this.legend=c("p",{class:"legend"});this.picture=new Ce;this.strip=new Ke;this.gallery=c("div",{class:"gallery"});this.heats=[];this.sourceName=c("h2",{},"Source");this.targetName=c("h2",{},"Target");this.layers=new Je;this.inList=c("table",{class:"ranked"});this.outList=c("table",{class:"ranked"});this.outName=c("h2",{});this.inName=c("h2",{});this.rest=c("p",{class:"quiet"});this.pointedSource=null;this.sourceText=new te("The text: choose a target",{choose:e=>this.choose(e,!0),point:(e,t)=>this.point(e,t,!0),close:e=>this.close(e)}),this.targetText=new te("The target side: choose a target",{choose:e=>this.choose(e,!1),point:(e,t)=>this.point(e,t,!1),close:e=>this.close(e)},!0),this.element=c("div",{class:"text-view"},this.answer,this.facts,c("div",{class:"columns"},c("div",{class:"main"},this.targetName,this.targetText.element,this.sourceName,this.picture.element,this.gallery,this.strip.element,this.sourceText.element,this.legend,this.layers.element),c("aside",{class:"side","aria-label":"Ranked sources"},this.inName,this.inList,this.rest,this.outName,this.outList)))}choose(e,t){let{context:s}=this,n=t?s.sources:s.targets,{start:r,stop:i,segment:a}=n.groups[e];if(a!==null){s.actions.set({open:[...s.state.open,a]});return}if(!(t&&!s.current.square)){for(let l=r;l<i;l++)if(s.current.holds(l)){s.actions.set({target:l,node:null}),s.actions.announce(this.sentence());return}}}find(e){let{segment:t,start:s}=this.context.sources.groups[e];t!==null&&this.choose(e,!0),this.sourceText.find(this.context.sources.of[s])}close(e){let t=this.context.state.open.filter(s=>s!==e);this.context.actions.set({open:t})}point(e,t,s){let{context:n}=this,r=!n.current.square,i=this.pointedSource;if(this.pointedSource=r&&s?e:null,this.pointedSource!==i&&this.shaded(),e===null){n.actions.tip(null,[]),n.actions.point(null);return}let a=s?n.sources:n.targets,{start:l,stop:h}=a.groups[e],u=!s||n.current.square,d=-1;for(let m=l;m<h&&d<0;m++)u&&n.current.holds(m)&&(d=m);let p=this.words(e,s);t?n.actions.tip(t,p):(s?this.sourceText:this.targetText).describe(e,p.join(". ")),n.actions.point(d<0?null:d)}words(e,t){let{context:s}=this,n=s.preview;s.preview=null;let r=(t?s.sources:s.targets).label(e),i=s.targets.label(s.targetGroup),a=[r];if(t){let l=s.incoming(),h=$(l,s.own).findIndex(u=>u.group===e);e===s.own?a.push(s.ownShare?`the target; ${v(l[e])} from itself`:"the target"):l[e]?a.push(`${v(l[e])} of ${i}${h>=0?`, rank ${h+1}`:""}`):a.push(`contributes nothing to ${i}`)}return s.preview=n,a}update(e){this.context=e;let{current:t,sources:s,targets:n,payload:r}=e,i=!t.square;this.picture.element.hidden=!r.image,this.hang();let a=!!t.sources.seconds;this.strip.element.hidden=!a,this.targetName.hidden=!i,this.sourceName.hidden=!i||!!t.sources.segments?.[0]?.[2],this.targetText.element.hidden=!i,this.sourceText.show(s,e),this.sourceText.element.hidden=a||this.sourceText.isEmpty,i&&this.targetText.show(n,e),this.shaded(),this.layers.update(e)}hang(){let e=this.context.picturesOf(this.context.current.sources);e.every((t,s)=>t===this.heats[s]?.picture)&&e.length===this.heats.length||(this.heats=e.map(t=>new oe(t)),this.gallery.replaceChildren(...this.heats.map(t=>t.element)))}heat(e){let{context:t}=this,{sources:s}=t,n=i=>{let{start:a,stop:l}=s.groups[s.of[i]];return e[s.of[i]]/(l-a)},r=Se(this.heats,n);for(let i of this.heats)i.show(t,n,r)}pointed(e){this.context=e,this.shaded(),this.layers.update(e)}shaded(){let{context:e}=this,{own:t,sources:s,targets:n,targetGroup:r,current:i}=e,a=e.incoming(),l=S(a,t),h=e.preview===null;this.sourceText.shadeBy(e,a,l,t,h),i.square||this.shadeTargets(r,h),this.picture.show(e,a,l),this.heat(a),this.strip.show(e,a,l);let u=$(a,t);h&&(this.answer.replaceChildren(this.headline()),this.facts.replaceChildren(...gs(e))),this.inList.classList.toggle("long",e.state.unit==="segments"||!!e.payload.image||!!s.text.segments?.some(([,,b])=>b!==void 0)),this.fillLegend(l);let d=n.label(r);this.inName.replaceChildren("Sources of ",c("b",{},T(d)));let p=t>=0&&a[t]?[{group:t,value:a[t]}]:[];vs(this.inList,e,{order:u.slice(0,Ye),itself:p,scale:l,label:b=>s.placed(b),find:b=>this.find(b)});let m=Array.from(a).reduce((b,w)=>b+Math.abs(w),0),f=u.slice(Ye).reduce((b,w)=>b+Math.abs(w.value),0),g=[];u.length>Ye&&g.push(`${u.length-Ye} more sources: ${v(f)}`),!i.complete&&m<.9995&&g.push(`small shares that are not on this page: ${v(1-m)}`),this.rest.textContent=g.join(" · "),this.goesTo(d)}shadeTargets(e,t){let{context:s,pointedSource:n}=this,{current:r,targets:i,sources:a}=s,l=n===null?new Float64Array(i.size):r.outgoing(s.choice,i,a,n),h=n===null?e:-1;this.targetText.shadeBy(s,l,S(l,-1),h,t)}goesTo(e){let{context:t}=this,{current:s,targets:n,targetGroup:r}=t,i=s.square&&s.held.length>1;if(this.outName.hidden=this.outList.hidden=!i,!i)return;let a=t.outgoing();this.outName.replaceChildren(c("b",{},T(e))," contributes to");let l=$(a,r).slice(0,En);this.outName.hidden=this.outList.hidden=l.length===0,vs(this.outList,t,{order:l,itself:[],scale:S(a,r),label:h=>n.label(h),find:h=>this.find(h)})}fillLegend(e){let{palette:t,current:s,payload:n}=this.context,r=n.image?"patch":s.sources.seconds?"frame":"word",i=r==="word"?"hover over a word to see its sources, click to keep them":s.square?`click a ${r} to see its sources`:"hover for numbers";this.legend.replaceChildren(c("span",{class:"outlined"},"target"),...Ge(t,e,s.entry.signed),c("span",{class:"quiet"},`share of the target · ${i}`))}most(){let{context:e}=this,{current:t}=e,{targets:s}=e,n=e.fine(t.sources),r=s.of[e.state.target],i=t.incoming(e.choice,s,r,n),a=t.square?n.of[e.state.target]:-1,l=$(i,a).slice(0,3);return{target:s.label(r),top:l.map(h=>[n.placed(h.group),h.value]),own:a<0||!e.ownShare?0:i[a]}}headline(){let{target:e,top:t,own:s}=this.most(),n=t.map(([r,i])=>[c("b",{},T(r)),` ${v(i)}`]);return c("span",{},c("b",{class:"outlined"},T(e)),t.length?` ${this.verb} `:` ${this.nothing}`,...ke(n),s?c("span",{class:"quiet"},` · ${v(s)} from itself`):null,...this.remarks().map(r=>c("span",{class:"quiet"},` · ${r}`)))}get verb(){return this.context.current.entry.explains_output?"depends most on":"receives most from"}get nothing(){return this.context.current.entry.explains_output?"depends on no token":"receives nothing from other tokens"}sentence(){let{target:e,top:t}=this.most(),s=this.remarks(),n=s.length?` (${s.join(", ")})`:"";return`${E(e)} ${this.verb} ${Fe(t)}${n}`}remarks(){let{context:e}=this,t=e.current.depths.length>1?[this.reading()]:[],s=e.preview;e.preview=null;let n=e.hiddenShare;return e.preview=s,n>0&&t.push(`${v(n)} from hidden tokens`),t}reading(){let{current:e,state:t}=this.context,s=e.depthName(t.depth),n=t.head===null?"":`, head ${t.head}`;return s[0].toLowerCase()+s.slice(1)+n}paint(e,t,s){let{palette:n,own:r,current:i}=t,a=t.incoming(),l=S(a,r);e.text(0,22,A(e,this.sentence(),17,s),{size:17,fill:n.ink,weight:600});let h=40;i.square||(h+=this.targetText.paint(e,t,0,h,s,new Float64Array(t.targets.size),1,t.targetGroup)+12),t.payload.image&&(h+=this.picture.paint(e,t,0,h,s,a,l)+12);for(let u of this.heats)h+=u.paint(e,0,h,s)+12;return i.sources.seconds?h+=this.strip.paint(e,t,0,h,s,a,l)+12:this.sourceText.isEmpty||(h+=this.sourceText.paint(e,t,0,h,s,a,l,r)+12),h+this.layers.paint(e,0,h,s)+8}rows(e){let t=e.incoming(),s=e.targets.label(e.targetGroup);return[["target","source","position","share","rank"],...$(t,-1).map(({group:n,value:r},i)=>[s,e.sources.label(n),String(e.sources.groups[n].start),r.toPrecision(4),String(i+1)])]}};function vs(o,e,t){let{order:s,itself:n,scale:r,label:i,find:a}=t,l=(m,f,g)=>c("tr",{class:g?"own":null},c("th",{scope:"row",dir:"auto"},f),c("td",{class:"bars"},yt(e,m,r,g?e.palette.quiet:void 0)),c("td",{},v(m))),[h,u]=["token","share"].map(m=>c("th",{scope:"col"},m)),d=m=>c("button",{type:"button",class:"source",title:`Find ${i(m)} in the text`,onclick:()=>a(m)},i(m)),p=s.map(m=>l(m.value,d(m.group),!1));p.push(...n.map(m=>l(m.value,"itself",!0))),o.replaceChildren(c("colgroup",{},c("col"),c("col"),c("col")),c("thead",{class:"unseen"},c("tr",{},h,c("td"),u)),c("tbody",{},...p))}var ws={answer:"Answer",text:"Text",map:"Map",heads:"Heads",flow:"Flow",compare:"Compare"},$n=1500,ge=class{constructor(e,t,s,n){this.root=e;this.linked=n;this.bar=c("header",{class:"bar-top"});this.tabs=c("div",{class:"tabs",role:"tablist","aria-label":"Views"});this.panel=c("div",{class:"panel",role:"tabpanel",tabindex:"-1"});this.notice=c("div",{class:"notice",role:"status"});this.foot=c("footer",{});this.tip=c("div",{class:"tip","aria-hidden":"true"});this.said=c("div",{class:"unseen","aria-live":"polite"});this.dark=window.matchMedia("(prefers-color-scheme: dark)");this.frame=0;this.printing=!1;e.classList.add("mixlens");let r=s&&Wt(s,t,i=>this.show(i));e.replaceChildren(...r?[r]:[],this.bar,this.tabs,this.notice,this.panel,this.foot,this.tip,this.said),this.dark.addEventListener("change",()=>this.update()),window.addEventListener("beforeprint",()=>this.print(!0)),window.addEventListener("afterprint",()=>this.print(!1)),new ResizeObserver(()=>this.soon()).observe(e),n&&window.addEventListener("hashchange",()=>{this.shown.length&&location.hash.slice(1)!==mt(this.context.state,this.first)&&(this.context.state=this.sound(ft(location.hash,this.first)),this.update())}),this.show(t,!0)}show(e,t=!1){Xt(e),this.views={answer:new Pe,text:new Xe,map:new Be,heads:new _e,flow:new De,compare:new je};let s=this.context?.state.theme??"auto";this.context=new ye(e,{},{set:r=>this.set(r),point:r=>this.point(r),tip:(r,i)=>this.tipAt(r,i),announce:r=>{this.said.textContent=r}});let n=this.shown;this.tabs.replaceChildren(),this.tabs.hidden=n.length<2,this.notice.hidden=!e.maps.length,this.first=n.length?this.firstState(e,s):{theme:s},n.length?this.context.state=t&&this.linked?this.sound(ft(location.hash,this.first)):{...this.first}:this.context.state=this.first,this.update()}get shown(){let{payload:e,measured:t}=this.context,s={answer:()=>!!e.answer,text:()=>t.length>0,map:()=>t.some(n=>n.held.length>1),heads:()=>t.some(n=>n.heads>0),flow:()=>t.some(n=>n.canFlow),compare:()=>t.some((n,r)=>t.some((i,a)=>r<a&&n.targets===i.targets&&n.sources===i.sources))};return pt.filter(n=>s[n]())}withoutMaps(){let{payload:e,palette:t}=this.context;this.bar.replaceChildren(c("p",{class:"title"},e.title)),this.foot.replaceChildren(c("p",{},`mixlens ${e.mixlens}`)),this.panel.replaceChildren(e.ranking?ms(e.ranking,t):c("p",{class:"quiet"},"Type a text above and press Measure."))}firstState(e,t){let{measured:s}=this.context,n={method:0,part:"",follow:"words"};if(!s.length)return{view:"answer",...n,theme:t};let r=Math.max(0,e.maps.findIndex(p=>p.measure==="value_zeroing")),i=s[r].sources,a=(i.words??i.labels).length,l=i.words??s[r].targets.words,h=i.segments&&a>$n?"segments":l?"words":"tokens",u=e.start?.target??s[r].held[0]??0;return{view:this.shown.find(p=>p===e.start?.view)??"text",map:r,other:null,target:u,depth:s[r].defaultDepth,rows:"each",head:null,unit:h,threshold:.02,open:h==="segments"?this.strongest(s[r],u):[],node:null,hide:"none",...n,theme:t}}strongest(e,t){let s=new F(e.sources,"segments"),n=new F(e.targets,"tokens"),r={depth:e.defaultDepth,head:null},i=e.incoming(r,n,t,s);return $(i,-1).slice(0,2).map(a=>a.group)}sound(e){let t={...e},{measured:s,answer:n}=this.context;if(this.shown.includes(t.view)||(t.view=this.first.view),n&&(n.about.methods[t.method]||(t.method=0),n.isPart(t.part)||(t.part="")),!s.length)return t;s[t.map]||(t.map=this.first.map);let r=s[t.map];return r.depths.includes(t.depth)||(t.depth=r.defaultDepth),t.head!==null&&(typeof t.depth!="number"||!(t.head>=0&&t.head<r.heads))&&(t.head=null),r.holds(t.target)||(t.target=r.holds(this.first.target)?this.first.target:r.held[r.held.length-1]),t.unit==="segments"&&!r.sources.segments&&(t.unit=r.sources.words?"words":"tokens"),t.unit==="words"&&!r.sources.words&&!r.targets.words&&(t.unit="tokens"),t.other!==null&&!s[t.other]&&(t.other=null),t}set(e){let{context:t}=this;if(t.preview=null,t.state=this.sound({...t.state,...e}),this.linked){let s=mt(t.state,this.first);history.replaceState(null,"",`${location.pathname}${location.search}${s?`#${s}`:""}`)}this.update(),this.tipAt(null,[])}point(e){this.context.preview!==e&&(this.context.preview=e,cancelAnimationFrame(this.frame),this.frame=requestAnimationFrame(()=>this.view.pointed?.(this.context)))}get view(){return this.views[this.context.state.view]}soon(){cancelAnimationFrame(this.frame),this.frame=requestAnimationFrame(()=>this.update())}print(e){this.printing=e,this.update()}paint(){let{theme:e}=this.context.state,t=!this.printing&&(e==="dark"||e==="auto"&&this.dark.matches);this.context.palette=this.printing?Ct:t?At:Y,this.root.dataset.theme=t?"dark":"light",this.linked&&(document.documentElement.dataset.theme=t?"dark":"light")}update(){if(this.paint(),!this.shown.length)return this.withoutMaps();this.context.leaveOut(),this.choices(),this.tabBar(),this.fillNotice();let{element:e}=this.view;this.panel.firstChild!==e&&this.panel.replaceChildren(e),this.view.update(this.context);let t=this.context.state.view==="answer"?Ft:jt;this.foot.replaceChildren(...t(this.context))}choices(){let e=this.context.state.view==="answer"?this.answerFields():this.mapFields(),t=this.root.getRootNode().activeElement,s=t&&this.bar.contains(t)?[...this.bar.querySelectorAll("select, button, summary")].indexOf(t):-1;this.bar.replaceChildren(...e,c("span",{class:"push"}),this.themeButton(),Yt(()=>this.view,this.context,this.linked)),s>=0&&this.bar.querySelectorAll("select, button, summary")[s]?.focus()}answerFields(){let{state:e,answer:t}=this.context;return[z("Method",t.about.methods.map(({name:s},n)=>[String(n),s]),String(e.method),s=>this.set({method:Number(s)})),z("Select",[["words","Words"],["sentences","Sentences"]],e.follow,s=>this.set({follow:s}))]}mapFields(){let{context:e}=this,{state:t,measured:s,current:n}=e,r=[z("Measure",s.map((u,d)=>[String(d),e.name(u)]),String(t.map),u=>this.set({map:Number(u),head:null}))];n.depths.length>1&&r.push(z("Layer",n.depths.map(u=>[String(u),n.depthName(u),n.upTo.length?An(u):void 0]),String(t.depth),u=>this.set({depth:xe(u)}))),n.heads&&typeof t.depth=="number"&&r.push(z("Head",[["","whole layer"],...Array.from({length:n.heads},(u,d)=>[String(d),String(d)])],t.head===null?"":String(t.head),u=>this.set({head:u===""?null:Number(u)})));let{words:i,segments:a}=n.sources,l=[["tokens","Tokens"]];(i||n.targets.words)&&l.unshift(["words","Words"]),a&&l.push(["segments","Segments"]),l.length>1&&r.push(z("By",l,t.unit,u=>this.set({unit:u,node:null})));let h=at(n,this.context.documents);return h.length>1&&t.view!=="flow"&&r.push(z("Hide",h,t.hide,u=>this.set({hide:u}))),r}fillNotice(){let{context:e}=this,{current:t,state:s}=e;if(this.notice.hidden=!0,s.view==="answer")return;let n=t.warningAt(s.depth),r=e.alike();if(n===null&&!r)return;this.notice.hidden=!1;let i=n??`All targets have nearly the same sources here. They differ by ${v(r.distance)} from their mean, so these numbers say little about a single target.`,a=[],l=(h,u)=>a.push(c("button",{type:"button",class:"link",onclick:()=>this.set(u)},h));s.depth!=="mean"&&t.depths.includes("mean")&&l("Show the mean of layers",{depth:"mean"}),r&&zt(r)&&at(t,this.context.documents).some(([h])=>h==="first")&&l("Hide the first token",{hide:"first"}),this.notice.replaceChildren(c("span",{},`${i} `),...a.flatMap(h=>[h," "]))}themeButton(){let e=this.context.palette.dark;return c("button",{type:"button",class:"plain","aria-label":e?"Light colours":"Dark colours",onclick:()=>this.set({theme:e?"light":"dark"})},e?"☀":"☾")}tabBar(){let{state:e}=this.context;if(!this.tabs.children.length)for(let t of this.shown)this.tabs.append(c("button",{type:"button",role:"tab","data-view":t,onclick:()=>this.set({view:t}),onkeydown:s=>this.tabKey(s)},ws[t]));for(let t of this.tabs.children){let s=t.dataset.view===e.view;t.setAttribute("aria-selected",String(s)),t.tabIndex=s?0:-1}this.panel.setAttribute("aria-label",ws[e.view])}tabKey(e){let t={ArrowLeft:-1,ArrowRight:1}[e.key];if(!t)return;e.preventDefault();let{shown:s}=this,n=(s.indexOf(this.context.state.view)+t+s.length)%s.length;this.set({view:s[n]}),this.tabs.children[n].focus()}tipAt(e,t){let{tip:s}=this;if(s.classList.toggle("on",!!(e&&t.length)),!e||!t.length)return;s.replaceChildren(...t.map((h,u)=>c(u?"div":"b",{dir:"auto"},h)));let{clientX:n,clientY:r}=e,i=s.offsetWidth,a=s.offsetHeight;s.style.left=`${Math.max(4,Math.min(n+14,window.innerWidth-i-8))}px`;let l=r+18+a<=window.innerHeight;s.style.top=`${l?r+18:r-a-12}px`}};function An(o){return typeof o=="number"?"One layer":D(o)===null?"All layers":"Layers up to a layer"}var Cn=o=>new Promise(e=>setTimeout(e,o)),Ze=class{constructor(e){this.api=e;this.job=null}async ask(e,t={}){let s=await fetch(this.api+e,t);if(s.status===204)return;let n=await s.json().catch(()=>null);if(!s.ok)throw new Error(typeof n?.detail=="string"?n.detail:`The server replied with HTTP status ${s.status}.`);return n}choices(){return this.ask("")}async run(e,t){let s="messages"in e?"/answers":"/jobs",{id:n}=await this.ask(s,{method:"POST",headers:{"Content-Type":"application/json"},body:JSON.stringify(e)});this.job=n;for(let r=80;;r=Math.min(1e3,r*1.3)){let i=await this.ask(`/jobs/${n}`);if(i.state==="done")break;if(i.state==="failed"||i.state==="cancelled")throw new Error(i.message||i.state);t(i.progress,i.message||i.state),await Cn(r)}return this.job=null,this.ask(`/jobs/${n}/payload`)}cancel(){this.job&&this.ask(`/jobs/${this.job}`,{method:"DELETE"}).catch(()=>{})}};var xs=`html {
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
.tabs[hidden] ~ .panel {
  margin-top: 18px;
}
.live-fields:empty {
  display: none;
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
  .matrix tr:has(> :nth-child(7)) td span {
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
  .legend .quiet {
    margin-left: 0;
  }
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
`;function ks(o){let e=new CSSStyleSheet;e.replaceSync(xs),o.adoptedStyleSheets=[...o.adoptedStyleSheets,e]}function Ms(o,e){try{e()}catch(t){o.replaceChildren(c("p",{role:"alert"},`This view cannot be shown: ${t.message}`))}}var ys=typeof document>"u"?null:document.getElementById("payload"),Tt=typeof document>"u"?null:document.getElementById("view");if(ys&&Tt){ks(document);let o=JSON.parse(ys.textContent??"null"),e=location.protocol!=="about:";Ms(Tt,()=>new ge(Tt,o,o.live?new Ze(o.live.api):null,e))}var Et=class{constructor(e){this.model=e;this.running=0}choices(){return Promise.resolve(this.model.get("choices"))}run(e){let t=++this.running;return new Promise((s,n)=>{let r=()=>{let i=this.model.get("answer");i.number===t&&(this.model.off("change:answer",r),i.payload?s(i.payload):n(new Error(i.error??"The notebook kernel did not answer. Run the cell again.")))};this.model.on("change:answer",r),this.model.set("job",{...e,number:t}),this.model.save_changes()})}cancel(){}};function Ln({model:o,el:e}){let t=e.attachShadow({mode:"open"});ks(t);let s=c("div");t.append(s),Ms(s,()=>new ge(s,o.get("payload"),new Et(o),!1))}return Ps(Pn);})();
