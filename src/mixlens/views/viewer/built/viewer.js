/* mixlens viewer, built from web/ 37f58ae05ba486c0b3123975389c7a2699a1203b37c7620172833e98536921de */
"use strict";var mixlensViewer=(()=>{var Xe=Object.defineProperty;var xs=Object.getOwnPropertyDescriptor;var ys=Object.getOwnPropertyNames;var ks=Object.prototype.hasOwnProperty;var Ms=(i,e)=>{for(var t in e)Xe(i,t,{get:e[t],enumerable:!0})},Ts=(i,e,t,s)=>{if(e&&typeof e=="object"||typeof e=="function")for(let n of ys(e))!ks.call(i,n)&&n!==t&&Xe(i,n,{get:()=>e[n],enumerable:!(s=xs(e,n))||s.enumerable});return i};var Es=i=>Ts(Xe({},"__esModule",{value:!0}),i);var Tn={};Ms(Tn,{render:()=>Mn});var te=i=>[Number.parseInt(i.slice(1,3),16),Number.parseInt(i.slice(3,5),16),Number.parseInt(i.slice(5,7),16)],he={dark:!1,paper:"#ffffff",ink:"#16191d",quiet:"#59626d",line:"#dfe3e8",band:"#f4f6f8",plus:["#f6f8fb","#cfe1f4","#9cc4ea","#5f9fdb","#2a74bd","#0b4586"].map(te),minus:["#fbf8f5","#fbdfc8","#f5b988","#e58b43","#bf5f14","#803604"].map(te)},kt={dark:!0,paper:"#101316",ink:"#e8ebef",quiet:"#a0a9b4",line:"#2c333b",band:"#191e23",plus:["#181c21","#14324f","#1a517f","#2f7ab8","#62a9e0","#b4daf8"].map(te),minus:["#1e1b18","#452811","#754015","#ad611f","#e08a40","#fcc797"].map(te)},Mt={...he,plus:["#f8fafc","#e2edf8","#c9def3","#aecdee","#8cb9e6","#659fda"].map(te),minus:["#fdfaf7","#fcead9","#f9d6b8","#f3be92","#eba468","#dd8a44"].map(te)};function $s(i,e){let t=Math.min(1,Math.max(0,e))*(i.length-1),s=Math.min(Math.floor(t),i.length-2),n=t-s,[r,o]=[i[s],i[s+1]];return[0,1,2].map(a=>Math.round(r[a]+(o[a]-r[a])*n))}function y(i,e){return $s(e<0?i.minus:i.plus,Math.abs(e))}var k=([i,e,t])=>`rgb(${i}, ${e}, ${t})`;function As(i){let[e,t,s]=i.map(n=>{let r=n/255;return r<=.04045?r/12.92:((r+.055)/1.055)**2.4});return .2126*e+.7152*t+.0722*s}function Y(i){return As(i)>.179?"#000000":"#ffffff"}function Cs(i){let e=atob(i),t=new Uint8Array(e.length);for(let s=0;s<e.length;s++)t[s]=e.charCodeAt(s);return t}var Ss=(()=>{let i=new Float32Array(65536);for(let e=0;e<65536;e++){let t=e&32768?-1:1,s=e>>10&31,n=e&1023;s===0?i[e]=t*n*2**-24:s===31?i[e]=n?Number.NaN:t*Number.POSITIVE_INFINITY:i[e]=t*(1+n/1024)*2**(s-15)}return i})();function U(i){let e=Cs(i.data).buffer;switch(i.dtype){case"float16":{let t=new Uint16Array(e),s=new Float32Array(t.length);for(let n=0;n<t.length;n++)s[n]=Ss[t[n]];return s}case"float32":return new Float32Array(e);case"uint16":return new Uint16Array(e);case"uint32":return new Uint32Array(e);default:throw new Error(`Arrays of ${i.dtype} are not known here.`)}}function se(i){return i.kind==="dense"?new Ze(i.shares):new Qe(i)}var Ze=class{constructor(e){this.complete=!0;let t=e.shape;this.sources=t[t.length-1],this.targets=t[t.length-2],this.layers=t.slice(0,-2).reduce((s,n)=>s*n,1),this.values=U(e)}eachOfRow(e,t,s){let n=(e*this.targets+t)*this.sources;for(let r=0;r<this.sources;r++){let o=this.values[n+r];o!==0&&s(r,o)}}eachOfColumn(e,t,s){let n=e*this.targets*this.sources+t;for(let r=0;r<this.targets;r++){let o=this.values[n+r*this.sources];o!==0&&s(r,o)}}},Qe=class{constructor(e){this.complete=!1;this.columns=new Map;[this.layers,this.targets,this.sources]=e.shape,this.starts=U(e.starts),this.indices=U(e.indices),this.values=U(e.values)}eachOfRow(e,t,s){let n=e*this.targets+t;for(let r=this.starts[n];r<this.starts[n+1];r++)s(this.indices[r],this.values[r])}eachOfColumn(e,t,s){let{starts:n,rows:r,values:o}=this.columnsOf(e);for(let a=n[t];a<n[t+1];a++)s(r[a],o[a])}columnsOf(e){let t=this.columns.get(e);if(t)return t;let s=new Uint32Array(this.sources+1);for(let l=0;l<this.targets;l++)this.eachOfRow(e,l,c=>s[c+1]++);for(let l=0;l<this.sources;l++)s[l+1]+=s[l];let n=s.slice(),r=new Uint32Array(s[this.sources]),o=new Float32Array(r.length);for(let l=0;l<this.targets;l++)this.eachOfRow(e,l,(c,d)=>{let u=n[c]++;r[u]=l,o[u]=d});let a={starts:s,rows:r,values:o};return this.columns.set(e,a),a}};var st=/[^ \t\n\r]+/g,et=class{constructor(e){this.shares=se(e.shares),this.totals=U(e.totals)}get columns(){return this.shares.sources}get lines(){return this.totals.length}of(e,t,s){let n=new Float64Array(this.columns),r=s?1:1/Math.max(1,t-e);for(let o=e;o<t;o++){let a=this.totals[o]*r;this.shares.eachOfRow(0,o,(l,c)=>{n[l]+=c*a})}return n}},tt=class{constructor(e,t){this.about=e;this.sentences=t;let s=n=>n?new et(n):null;this.tables={documents:s(e.documents),passages:s(e.passages),words:s(e.words),kinds:s(e.kinds)}}get tokens(){return this.tables.documents.lines-this.sentences-1}of(e,t){let s=n=>this.tables[n]?.of(e,t,this.about.removes)??null;return{documents:s("documents"),passages:s("passages"),words:s("words"),kinds:s("kinds")}}},be=class{constructor(e){this.about=e;this.passages=[];this.firstWord=[];this.known=new Map;this.documents=e.blocks.filter(s=>s.document>=0).map(s=>s.name),this.methods=e.methods.map(()=>null);for(let{document:s,pieces:n}of e.blocks)for(let[r,o]of n)o>=0&&(this.passages[o]={text:r,document:s});let t=0;for(let{text:s}of this.passages)this.firstWord.push(t),t+=s.match(st)?.length??0}lines(e,t){let{words:s,sentences:n}=this.about,r=Number(e.slice(1));if(e[0]==="w")return[s[r].first,s[r].stop];let o=t+(e?r:n.length);return[o,o+1]}text(e){let{words:t,sentences:s}=this.about;return e?(e[0]==="w"?t:s)[Number(e.slice(1))].text:"This answer"}isPart(e){let t=Number(e.slice(1)),{words:s,sentences:n}=this.about;return e===""?!0:e[0]==="w"?t in s:e[0]==="s"&&t in n}of(e,t){let s=`${e} ${t}`,n=this.known.get(s);if(!n){let r=this.methods[e]??=new tt(this.about.methods[e],this.about.sentences.length);n=r.of(...this.lines(t,r.tokens)),this.known.size>400&&this.known.clear(),this.known.set(s,n)}return n}passageOf(e){let t=0,s=this.firstWord.length-1;for(;t<s;){let n=t+s+1>>1;this.firstWord[n]<=e?t=n:s=n-1}return t}};function ce(i){let e=0;for(let t of i)e+=Math.max(0,t);return i.map(t=>e>0?Math.max(0,t)/e:0)}function N(i,e){let t=[];for(let s=0;s<i.length;s++)i[s]>0&&t.push(s);return t.sort((s,n)=>i[n]-i[s]||s-n).slice(0,e)}var Ls={0:"NUL",7:"BEL",8:"BS",9:"TAB",10:"↵",13:"CR",27:"ESC",127:"DEL",160:"NBSP",173:"SHY",1564:"ALM",6158:"MVS",8203:"ZWSP",8204:"ZWNJ",8205:"ZWJ",8206:"LRM",8207:"RLM",8232:"LS",8233:"PS",8234:"LRE",8235:"RLE",8236:"PDF",8237:"LRO",8238:"RLO",8288:"WJ",8294:"LRI",8295:"RLI",8296:"FSI",8297:"PDI",65279:"BOM",65532:"OBJ"},Ps=/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u00a0\ufffc]/gu,Tt=/[\p{L}\p{M}\p{Extended_Pictographic}\ufe0f\u{1f3fb}-\u{1f3ff}]/u;function _(i){return i.replace(Ps,(e,t)=>{let s=e.codePointAt(0);if(s===10)return"↵";if(s===8204||s===8205){let n=[...i.slice(0,t)].pop()??"",r=[...i.slice(t+1)][0]??"";if(Tt.test(n)&&Tt.test(r))return e}return`⟨${Ls[s]??`U+${s.toString(16).toUpperCase().padStart(4,"0")}`}⟩`})}var R=class{constructor(e,t,s=new Set){this.text=e;this.unit=t;this.open=s;this.groups=Hs(e,t,s),this.of=new Int32Array(e.labels.length),this.groups.forEach((n,r)=>this.of.fill(r,n.start,n.stop))}get size(){return this.groups.length}label(e){let{start:t,stop:s,segment:n}=this.groups[e],r=n===null?void 0:this.text.segments[n][2];return r===void 0?this.beginning(t,s,n!==null):_(r)}placed(e){let{start:t,segment:s}=this.groups[e],n=this.label(e);if(s!==null||!this.text.segments)return n;let r=this.text.segments[nt(this.text,t)]?.[2];return r===void 0?n:`${n} (${_(r)})`}beginning(e,t,s){let n=s?Math.min(t,e+6):t,r="";for(let o=e;o<n;o++)r+=(o>e?this.text.gaps[o].replace(/\s+/g," "):"")+this.text.shown[o];return _(r)+(n<t?" …":"")}special(e){let{start:t,stop:s}=this.groups[e];return this.text.special.slice(t,s).every(n=>n===1)}};function Hs(i,e,t){let s=i.labels.length,n=(o,a)=>Array.from({length:a-o},(l,c)=>({start:o+c,stop:o+c+1,segment:null})),r=(o,a)=>i.words?i.words.filter(([l,c])=>l<a&&c>o).map(([l,c])=>({start:Math.max(l,o),stop:Math.min(c,a),segment:null})):n(o,a);return e==="tokens"?n(0,s):e==="words"||!i.segments?r(0,s):i.segments.flatMap(([o,a],l)=>t.has(l)?r(o,a):[{start:o,stop:a,segment:l}])}function nt(i,e){return i.segments?i.segments.findIndex(([t,s])=>t<=e&&e<s):-1}var zs=.1,Os=.5,Et=4,Ns=64;function $t(i){let e=[];return i.special.forEach((t,s)=>{t&&!/mask/i.test(i.labels[s])&&e.push(s)}),e}function At(i,e,t){let s=new Set;if(e==="others"){i.labels.forEach((n,r)=>s.add(r));for(let[n,r,o]of i.segments??[])if(o!==void 0&&t.has(o))for(let a=n;a<r;a++)s.delete(a)}if(e==="special"||e==="both")for(let n of $t(i))s.add(n);return(e==="first"||e==="both")&&s.add(0),s}function rt(i,e){let{sources:t}=i;if(t.seconds||t.labels.length<2)return[];let s=[["none","nothing"]],n=$t(t);n.length&&s.push(["special","special tokens"]);let r=n[0]===0;return(n.length!==1||!r)&&s.push(["first","first token (attention sink)"]),n.length&&!r&&s.push(["both","special and first tokens"]),t.segments?.some(([,,o])=>o!==void 0&&e.has(o))&&s.push(["others","all but documents"]),s}function Ct(i,e){let t=Rs(i,e);if(t.length<Et||t[0].values.length<Et)return null;let s=new Float64Array(t[0].values.length),n=new Float64Array(s.length);for(let{own:a,values:l}of t)l.forEach((c,d)=>{d!==a&&(s[d]+=c,n[d]+=1)});s.forEach((a,l)=>s[l]=n[l]?a/n[l]:0);let r=s.reduce((a,l)=>a+l,0),o=0;for(let{own:a,values:l}of t){let c=r-(s[a]??0);l.forEach((d,u)=>{let p=u===a||c<=0?0:s[u]/c;o+=Math.abs(d-p)/2/t.length})}return o<zs?{distance:o,first:s[0]/r}:null}function Rs(i,e){let{held:t,square:s}=i,n=new R(i.sources,"tokens"),r=new R(i.targets,"tokens"),o=Math.max(1,t.length/Ns),a=[];for(let l=0;l<t.length;l+=o){let c=t[Math.floor(l)],d=s?c:-1,u=i.incoming(e,r,c,n).map(Math.abs);s&&(u[d]=0);let p=u.reduce((m,f)=>m+f,0);p>0&&a.push({own:d,values:u.map(m=>m/p)})}return a}var St=i=>i.first>Os;function q(i){return typeof i=="string"&&i.startsWith("to")?Number(i.slice(2)):null}function ve(i){return i==="all"||i==="mean"||i.startsWith("to")?i:Number(i)}var we=class{constructor(e,t){this.entry=t;this.norms=new WeakMap;this.without=new Set;this.targets=e.texts[t.targets],this.sources=e.texts[t.sources],this.square=t.targets===t.sources,this.held=t.target_positions??this.targets.labels.map((n,r)=>r),this.rowOf=new Map(this.held.map((n,r)=>[n,r])),this.layers=t.scores&&se(t.scores),this.joined=t.joined&&se(t.joined.scores),this.perHead=t.heads?se(t.heads):null,this.heads=this.perHead?this.perHead.layers/t.layers.length:0;let s=n=>n?U(n):null;this.totals=s(t.totals),this.joinedTotals=s(t.joined?.totals)}leaveOut(e){this.without=e,this.norms=new WeakMap}get complete(){return(this.layers?.complete??!0)&&(this.joined?.complete??!0)}get whole(){return this.square&&this.entry.target_positions===null&&this.layers!==null}get canFlow(){return this.whole&&this.joined!==null&&!this.entry.reaches_input}get depths(){let e=this.entry.layers.map((l,c)=>c),{joined:t,reaches_input:s}=this.entry,n=t?.how==="mean"||t?.how==="sum()",r=e.length>1&&!s&&!n?["mean"]:[],o=this.joined?["all"]:[];return[...this.entry.reading==="all"?[...o,...r]:[...r,...o],...this.upTo,...e]}get upTo(){let e=this.joined?.layers??0;return Array.from({length:Math.max(0,e-1)},(t,s)=>`to${s}`)}get defaultDepth(){let{reading:e,layers:t}=this.entry;return e!==void 0&&this.depths.includes(e)?e:this.depths.includes("mean")?"mean":this.joined?"all":t.length-1}hasOwnShare(e){let{own_share:t,joined:s}=this.entry;return!!(this.isJoined(e)?s.own_share:t)}warningAt(e){let{warnings:t,joined:s}=this.entry;return this.isJoined(e)?s.warnings?.[this.joinedLayer(e)]??null:typeof e=="number"?t?.[e]??null:null}joinedLayer(e){return q(e)??this.joined.layers-1}isJoined(e){return this.joined!==null&&typeof e=="string"&&e!=="mean"}depthName(e){if(e==="mean")return`Mean of ${this.entry.layers.length} layers`;let t=this.entry.joined?.how.replace(/\(.*/,"")??"";if(e==="all"&&t==="last")return"Last layer";if(e==="all")return/^-?\d+$/.test(t)?`Layer ${t}`:`All layers (${t})`;let s=q(e);if(s!==null)return`Layers up to ${this.entry.layers[s]} (${t})`;let n=(this.entry.provenance.steps??[]).find(o=>/^(rollout|flow)/.test(o)),r=`Layer ${this.entry.layers[e]}`;return n?`${r} (${n.replace(/\(.*/,"")} up to it)`:r}holds(e){return this.rowOf.has(e)}planes({depth:e,head:t}){return this.isJoined(e)?[this.joinedPlane(this.joinedLayer(e))]:typeof e=="string"?this.entry.layers.flatMap((s,n)=>this.planes({depth:n,head:t})):t!==null&&this.perHead?[{shares:this.perHead,layer:e*this.heads+t,totals:null}]:this.layers?[{shares:this.layers,layer:e,totals:this.part(this.totals,e)}]:[]}joinedPlane(e){return{shares:this.joined,layer:e,totals:this.part(this.joinedTotals,e)}}part(e,t){let s=this.held.length;return e?.subarray(t*s,(t+1)*s)??null}rows(e,t){let{start:s,stop:n}=e.groups[t],r=[];for(let o=s;o<n;o++){let a=this.rowOf.get(o);a!==void 0&&r.push(a)}return r}incoming(e,t,s,n){let r=new Float64Array(n.size),o=this.planes(e),a=this.rows(t,s);for(let l of o){let c=o.length>1?new Float64Array(n.size):r,d=this.accumulate(l,a,n,c),u=d>0?1/d/o.length:0;for(let p=0;p<c.length;p++)c===r?r[p]*=u:r[p]+=c[p]*u}return r}shareOf(e,t,s,n){let r=this.planes(e),o=this.rows(t,s),a=0;for(let{shares:l,layer:c,totals:d}of r){let[u,p]=[0,0];for(let m of o){let f=d?d[m]:1;p+=f,l.eachOfRow(c,m,(g,b)=>{n.has(g)&&(u+=Math.abs(b)*f)})}p>0&&(a+=u/p/r.length)}return a}accumulate(e,t,s,n){let r=0;for(let a of t){let l=e.totals?e.totals[a]:1,c=0;e.shares.eachOfRow(e.layer,a,(d,u)=>{this.without.has(d)||(n[s.of[d]]+=u*l),c+=Math.abs(u)}),e.shares.complete||(r+=Math.max(0,1-c)*l)}let o=r;for(let a of n)o+=Math.abs(a);return o}outgoing(e,t,s,n){let r=new Float64Array(t.size),o=this.planes(e),{start:a,stop:l}=s.groups[n];for(let c of o){let d=this.normsOf(c,t,s);for(let u=a;u<l;u++)this.without.has(u)||c.shares.eachOfColumn(c.layer,u,(p,m)=>{let f=t.of[this.held[p]],g=d[f],b=c.totals?c.totals[p]:1;g>0&&(r[f]+=m*b/g/o.length)})}return r}normsOf(e,t,s){let n=this.norms.get(t)??new Map;this.norms.set(t,n);let r=`${e.shares===this.perHead} ${e.shares===this.joined} ${e.layer}`,o=n.get(r)??new Float64Array(t.size);if(n.has(r))return o;for(let a=0;a<t.size;a++){let l=this.rows(t,a);if(this.entry.signed||this.without.size)o[a]=this.accumulate(e,l,s,new Float64Array(s.size));else for(let c of l)o[a]+=e.totals?e.totals[c]:1}return n.set(r,o),o}eachTransition(e,t,s){let{residual:n=0,normalise:r}=this.entry.joined,o=this.entry.signed||!this.totals?1:this.totals[e*this.held.length+t],a=n;r!==!1&&this.layers.eachOfRow(e,t,(c,d)=>{a+=(1-n)*Math.abs(d)*o});let l=r===!1?1:a>0?1/a:0;n>0&&s(t,n*l),this.layers.eachOfRow(e,t,(c,d)=>s(c,(1-n)*Math.abs(d)*o*l))}total({depth:e,head:t},s){if(t!==null||typeof e!="number"||!this.totals)return null;let n=this.rowOf.get(s);return n===void 0?null:this.totals[e*this.held.length+n]}};function $(i,e){let t=[];for(let s=0;s<i.length;s++)s!==e&&i[s]!==0&&t.push({group:s,value:i[s]});return t.sort((s,n)=>Math.abs(n.value)-Math.abs(s.value)||s.group-n.group)}function S(i,e){let t=0;for(let s=0;s<i.length;s++)s!==e&&(t=Math.max(t,Math.abs(i[s])));return t}var Fs=new Set,xe=class{constructor(e,t,s){this.payload=e;this.state=t;this.actions=s;this.preview=null;this.groupings=new Map;this.hidden="none";this.gone=new Map;this.likeness=new Map;this.measured=e.maps.map(n=>new we(e,n)),this.answer=e.answer?new be(e.answer):null,this.documents=new Set(this.answer?.documents)}leaveOut(){if(this.state.hide!==this.hidden){this.hidden=this.state.hide,this.gone.clear();for(let e of this.measured){let t=this.gone.get(e.sources)??At(e.sources,this.hidden,this.documents);this.gone.set(e.sources,t),e.leaveOut(t)}}}goneFrom(e){return this.gone.get(e)??Fs}get hiddenShare(){let e=this.goneFrom(this.current.sources);return e.size?this.current.shareOf(this.choice,this.targets,this.targetGroup,e):0}alike(e=this.state.depth){let{map:t,head:s,hide:n}=this.state,r=[t,e,s,n].join(" ");return this.likeness.has(r)||this.likeness.set(r,Ct(this.current,{depth:e,head:s})),this.likeness.get(r)}get current(){return this.measured[this.state.map]}get choice(){return{depth:this.state.depth,head:this.state.head}}get target(){return this.preview??this.state.target}isPatch(e,t){let{image:s}=this.payload;return!s||e!==this.payload.texts[s.text??this.payload.maps[0].sources]?!1:t>=s.first&&t<s.first+s.rows*s.columns}grouping(e){let t=this.state.unit==="segments"?this.openSegments(e):[],s=`${this.payload.texts.indexOf(e)} ${this.state.unit} ${t.join(",")}`,n=this.groupings.get(s);return n||(this.groupings.size>12&&this.groupings.clear(),n=new R(e,this.state.unit,new Set(t)),this.groupings.set(s,n)),n}fine(e){if(this.state.unit!=="segments")return this.grouping(e);let t=`${this.payload.texts.indexOf(e)} fine`,s=this.groupings.get(t)??new R(e,"words");return this.groupings.set(t,s),s}get ownShare(){return this.current.hasOwnShare(this.state.depth)}openSegments(e){let t=e===this.current.targets?nt(e,this.state.target):-1,s=new Set(this.state.open);return t>=0&&s.add(t),[...s].sort((n,r)=>n-r)}get targets(){return this.grouping(this.current.targets)}get sources(){return this.grouping(this.current.sources)}get targetGroup(){return this.targets.of[this.target]??0}get cueGroup(){let e=this.payload.start?.cue;return e==null?null:this.sources.of[e]??null}get own(){return this.current.square?this.targetGroup:-1}incoming(e=this.current,t=this.choice){return e.incoming(t,this.targets,this.targetGroup,this.sources)}outgoing(){let{current:e}=this;return e.outgoing(this.choice,this.targets,this.sources,this.targetGroup)}depthFor(e){return e.depths.includes(this.state.depth)?this.state.depth:e.defaultDepth}name(e){let{measure:t,provenance:s}=e.entry,n=s.site;return new Set(this.payload.maps.map(o=>o.provenance.site)).size>1&&n?`${t} · ${n}`:t}};function h(i,e={},...t){let s=document.createElement(i);for(let[n,r]of Object.entries(e))r==null||r===!1||(n.startsWith("on")?s.addEventListener(n.slice(2),r):n==="class"?s.className=String(r):s.setAttribute(n,r===!0?"":String(r)));return s.append(...t.filter(n=>n!=null&&n!==!1)),s}function X(i,e){for(let[t,s]of Object.entries(e))i.style.setProperty(t,s);return i}function T(i){let e=[...i];return e.length>40?`${e.slice(0,39).join("")}…`:i}function ye(i){let e=i.length-1;return i.flatMap((t,s)=>[s===0?"":s===e?" and ":", ",...t])}function w(i){let e=Math.abs(i*100);if(e>0&&e<.005)return"under 0.01 %";let t=e>=9.95?0:e>=.095?1:2;return`${i<0?"−":""}${e.toFixed(t)} %`}var E=i=>`⁨${i}⁩`;function O(i,e,t,s){let n=h("select",{onchange:o=>s(o.target.value)}),r=new Map;for(let[o,a,l]of e){let c=l?r.get(l)??h("optgroup",{label:l}):n;l&&r.set(l,c),c!==n&&n.append(c),c.append(h("option",{value:o,selected:o===t},a))}return h("label",{class:"field"},h("span",{},i),n)}function W(i){let e={ArrowLeft:[-1,0],ArrowRight:[1,0],ArrowUp:[0,-1],ArrowDown:[0,1]};return h("canvas",{tabindex:"0",role:"img",onmousemove:i.over,onmouseleave:i.leave,onclick:i.choose,onkeydown:t=>{let s=e[t.key];t.key==="Enter"&&i.choose(),s&&(t.preventDefault(),i.step(...s))}})}var L=(i,e)=>Math.max(0,Math.min(e-1,i));function D(i,e){let t=h("details",{class:"behind"},h("summary",{},`${i} as a table`));return t.addEventListener("toggle",()=>{t.open&&Pt(t,e())}),t}function I(i,e){i.open&&Pt(i,e())}var Lt=400;function Pt(i,[e,...t]){i.querySelector("div")?.remove();let s=h("table",{},h("thead",{},h("tr",{},...(e??[]).map(r=>h("th",{scope:"col"},r)))),h("tbody",{},...t.slice(0,Lt).map(r=>h("tr",{},...r.map((o,a)=>a?h("td",{},o):h("th",{scope:"row"},o)))))),n=t.length-Lt;i.append(h("div",{class:"wide",tabindex:"0",role:"region","aria-label":"Table"},s,n>0&&h("p",{},`${n} more rows are in the CSV file.`)))}function Ht(i){let{methods:e,provenance:t,uses_template:s}=i.answer.about,{name:n,reading:r,citation:o,removes:a}=e[i.state.method],l=t.name??t.model??"",c=[l&&`${l}${t.dtype?` in ${String(t.dtype)}`:""}`,`answer ${String(t.answer??"generated")}`,`${n}, ${r}`,o,`mixlens ${i.payload.mixlens}`],d=[a?"A score is what the answer loses without the document. Percentages leave out negative scores.":"A percentage is a share of the scores of all documents. It is no probability, and no proof: a method can miss the evidence, and its shares depend on the length of documents."];return s&&d.push("mixlens wrote the prompt with the chat template of the model."),[...d.map(u=>h("p",{},u)),h("p",{},c.filter(Boolean).join(" · "))]}function zt(i){let{current:e,payload:t}=i,{provenance:s,citation:n,summary:r,notes:o,measure:a,joined:l}=e.entry,c=Object.entries(s.options??{}).map(([f,g])=>`${f}=${String(g)}`).join(", "),d=(s.steps??[]).join(" → "),u=s.name??s.model??"",p=[u&&`${u}${s.dtype?` in ${String(s.dtype)}`:""}`,`${a}${c?` (${c})`:""}${d?` → ${d}`:""}`,l&&e.isJoined(i.state.depth)&&`layers joined by ${l.how}`,s.site,n,"shares in float16, three digits",`mixlens ${t.mixlens}`],m=[...o??[]];if(!e.complete){let f=Array.from(i.incoming()).reduce((g,b)=>g+Math.abs(b),0);m.push(`Of each row and column only the largest shares are in this page. For this target ${w(Math.max(0,1-f))} is left out.`)}return[h("p",{},h("b",{},a),r?`: ${r}.`:"."),h("p",{},p.filter(Boolean).join(" · ")),...m.map(f=>h("p",{},f))]}function ke(i,e,t){return h("fieldset",{class:"checks"},h("legend",{class:"unseen"},i),...e.map(({name:s,summary:n})=>h("label",{title:n??""},h("input",{type:"checkbox",value:s,checked:t.has(s)}),` ${s}`)))}function ne(i){return[...i.querySelectorAll("fieldset input:checked")].map(e=>e.value)}var js=["user","assistant","system"],Ot=64,Me=class{constructor(e){this.turns=h("div",{class:"turns"});this.documents=h("div",{class:"papers"});this.answer=h("textarea",{rows:"2","aria-label":"Answer to explain",placeholder:"Leave empty, and the model answers",spellcheck:"false"});this.length=h("input",{type:"number",min:"1",value:String(Ot)});this.methods=h("div");this.ticked=e?.methods??[],this.addTurn=Nt("Add a turn",()=>this.putTurn({role:"user",content:""}));let t=()=>this.putDocument(this.nextName(),"").querySelector("textarea").focus();for(let s of e?.messages??[{role:"user",content:""}])this.putTurn(s);for(let{name:s,text:n}of e?.documents??[])this.putDocument(s,n);e&&(this.length.value=String(e.max_new_tokens)),this.element=h("div",{class:"live-part"},h("div",{class:"live-head"},h("h2",{},"Documents"),Nt("Add a document",t)),this.documents,h("div",{class:"live-head"},h("h2",{},"Prompt"),this.addTurn),this.turns,h("details",{class:"behind"},h("summary",{},"Methods, length and given answer"),this.methods,h("label",{class:"field"},h("span",{},"New tokens at most"),this.length),this.answer))}offer(e,t){let s=t.methods??[];this.methods.firstChild&&(this.ticked=ne(this.element));let n=this.ticked.filter(l=>s.includes(l));this.ticked=n.length?n:s.slice(0,1);let r=new Map(e.measures.map(({name:l,summary:c})=>[l,c])),o=s.map(l=>({name:l,summary:r.get(l)}));this.methods.replaceChildren(ke("Methods",o,new Set(this.ticked))),this.addTurn.hidden=!t.chats;let a=e.limits?.new_tokens;a&&(this.length.max=String(a))}job(e){let t=r=>[...r.children],n=t(this.turns).map(r=>({role:r.querySelector("select").value,content:r.querySelector("textarea").value})).filter(({content:r})=>r.trim());if(n.length===1&&(n[0].role="user"),!n.length)throw new Error("The prompt is empty. Type a question or a text.");return{model:e,messages:n,documents:t(this.documents).map(r=>({name:r.querySelector("input").value.trim(),text:r.querySelector("textarea").value})).filter(({text:r})=>r.trim()),answer:this.answer.value.trim()?this.answer.value:null,methods:ne(this.element),max_new_tokens:Number(this.length.value)||Ot}}putTurn({role:e,content:t}){let s=h("textarea",{rows:"3","aria-label":"Prompt",spellcheck:"false"});s.value=t,s.placeholder="A question or a prompt. {documents} is where the documents go.";let n=h("select",{"aria-label":"Role"},...js.map(o=>h("option",{value:o,selected:o===e},o))),r=h("div",{class:"turn-row"},n,s,Rt("turn",()=>r.remove()));this.turns.append(r)}putDocument(e,t){let s=h("input",{type:"text","aria-label":"Name of the document"});s.value=e;let n=h("textarea",{rows:"3","aria-label":`Text of ${e}`,spellcheck:"false"});n.value=t,n.placeholder="The text of this document";let r=h("div",{class:"paper"},s,Rt("document",()=>r.remove()),n);return this.documents.append(r),r}nextName(){let e=[...this.documents.querySelectorAll("input")].map(s=>s.value.trim()),t=e.length+1;for(;e.includes(`document ${t}`);)t++;return`document ${t}`}};function Nt(i,e){return h("button",{type:"button",onclick:e},i)}function Rt(i,e){return h("button",{type:"button",class:"plain","aria-label":`Remove this ${i}`,onclick:e},"×")}var qs=["value_zeroing","attention","alti"],Te=class{constructor(e){this.text=h("textarea",{rows:"2","aria-label":"Text",spellcheck:"false"});this.second=h("textarea",{rows:"2","aria-label":"Target text: what the decoder is given",placeholder:"What the decoder is given",spellcheck:"false",hidden:!0});this.heads=h("input",{type:"checkbox"});this.measures=h("div");let t=e.request?[]:e.maps.map(s=>s.measure);this.ticked=t.length?t:qs,this.text.value=e.texts[0]&&!e.request?Ws(e):"",this.element=h("div",{class:"live-part"},this.text,this.second,h("details",{class:"behind"},h("summary",{},"Measures"),this.measures,h("label",{},this.heads," single heads too")))}offer(e,t){this.second.hidden=!t.pairs,this.measures.firstChild&&(this.ticked=ne(this.element));let s=e.measures.filter(({name:n})=>t.measures?.includes(n)??!0);this.measures.replaceChildren(ke("Measures",s,new Set(this.ticked)))}job(e){return{model:e,text:this.text.value,target_text:this.second.hidden?null:this.second.value,measures:ne(this.element),heads:this.heads.checked}}};function Ws(i){let{shown:e,gaps:t,special:s,labels:n}=i.texts[0];return e.map((r,o)=>s[o]&&!/mask/i.test(n[o])?"":t[o]+r).join("").trim()}var Ds={text:"Measure a text",answer:"Explain an answer"},Is={text:"Measure",answer:"Answer"},ot=class{constructor(e,t,s){this.live=e;this.show=s;this.kinds=h("div",{class:"kinds-of-job",role:"group",hidden:!0});this.fields=h("span",{class:"live-fields"});this.run=h("button",{type:"submit",class:"primary"},"Measure");this.bar=h("progress",{max:"1",hidden:!0,"aria-label":"Progress"});this.words=h("p",{class:"quiet",role:"status"});this.model={name:""};this.choices={models:[],measures:[]};this.kind=t.request?"answer":"text",this.parts={text:new Te(t),answer:new Me(t.request??null)},this.kinds.setAttribute("aria-label","What to ask");let n={type:"button",hidden:!0,onclick:()=>e.cancel()};this.cancel=h("button",n,"Cancel"),this.element=h("form",{class:"live",onsubmit:r=>{r.preventDefault(),this.go()}},this.kinds,this.parts.text.element,this.parts.answer.element,h("div",{class:"live-line"},this.fields,this.run,this.cancel,this.bar,this.words)),this.choose(this.kind),e.choices().then(r=>this.offer(r),r=>this.fail(r))}offer(e){if(this.choices=e,this.take(e.models[0]??{name:""}),e.models.length<2)return;let t=e.models.map(({name:s})=>[s,s]);this.fields.append(O("Model",t,this.model.name,s=>this.take(e.models.find(({name:n})=>n===s))))}take(e){this.model=e;for(let s of Object.values(this.parts))s.offer(this.choices,e);let t=!!e.methods?.length;this.kinds.hidden=!t,this.choose(t?this.kind:"text")}choose(e){this.kind=e;for(let t of["text","answer"])this.parts[t].element.hidden=t!==e;this.run.textContent=Is[e],this.kinds.replaceChildren(...["answer","text"].map(t=>h("button",{type:"button","aria-pressed":String(t===e),onclick:()=>this.choose(t)},Ds[t])))}async go(){this.run.disabled=!0,this.bar.hidden=this.cancel.hidden=!1,this.bar.removeAttribute("value"),this.words.textContent="",this.words.classList.remove("wrong");try{let e=this.parts[this.kind].job(this.model.name);this.show(await this.live.run(e,(t,s)=>{this.bar.value=t,this.words.textContent=s})),this.words.textContent=""}catch(e){this.fail(e)}finally{this.run.disabled=!1,this.bar.hidden=this.cancel.hidden=!0}}fail(e){this.words.textContent=e.message,this.words.classList.add("wrong")}};function Ft(i,e,t){return new ot(i,e,t).element}var jt='system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif',qt=(i,e=400)=>`${e} ${i}px ${jt}`,Z=class{constructor(e){this.pen=e;this.rect=(e,t,s,n,r,o,a=1,l=0)=>{let{pen:c}=this;c.beginPath(),l?c.roundRect(e,t,s,n,l):c.rect(e,t,s,n),r&&(c.fillStyle=r,c.fill()),o&&(c.strokeStyle=o,c.lineWidth=a,c.stroke())};this.text=(e,t,s,n)=>{let{pen:r}=this;r.save(),r.font=qt(n.size,n.weight),r.fillStyle=n.fill,r.textAlign=n.align??"left",r.direction=n.rtl?"rtl":"ltr",r.translate(e,t),n.rotate&&r.rotate(n.rotate*Math.PI/180),r.fillText(s,0,0),r.restore()};this.curve=(e,t,s,n,r,o,a)=>{let{pen:l}=this,c=(t+n)/2;l.save(),l.globalAlpha=a,l.strokeStyle=o,l.lineWidth=r,l.lineCap="round",l.beginPath(),l.moveTo(e,t),l.bezierCurveTo(e,c,s,c,s,n),l.stroke(),l.restore()};this.circle=(e,t,s,n,r)=>{let{pen:o}=this;o.beginPath(),o.arc(e,t,s,0,2*Math.PI),o.fillStyle=n,o.fill(),r&&(o.strokeStyle=r,o.lineWidth=2,o.stroke())};this.image=(e,t,s,n,r,o=!1)=>{this.pen.imageSmoothingEnabled=o,this.pen.drawImage(e,t,s,n,r)}}width(e,t,s){return Wt(e,t,s)}},it=null;function Wt(i,e,t){return it??=document.createElement("canvas").getContext("2d"),it.font=qt(e,t),it.measureText(i).width}var re=i=>Math.round(i*100)/100,de=class{constructor(){this.parts=[];this.rect=(e,t,s,n,r,o,a=1,l=0)=>{this.put("rect",{x:e,y:t,width:s,height:n,rx:l||void 0,fill:r??"none",stroke:o,"stroke-width":o&&a})};this.text=(e,t,s,n)=>{let r={left:"start",center:"middle",right:"end"}[n.align??"left"];this.put("text",{x:n.rotate?0:e,y:n.rotate?0:t,transform:n.rotate?`translate(${re(e)} ${re(t)}) rotate(${n.rotate})`:void 0,"font-size":n.size,"font-weight":n.weight,fill:n.fill,direction:n.rtl?"rtl":void 0,"text-anchor":r==="start"?void 0:r},at(s))};this.curve=(e,t,s,n,r,o,a)=>{let[l,c,d,u,p]=[e,t,s,n,(t+n)/2].map(re);this.put("path",{d:`M${l} ${c}C${l} ${p} ${d} ${p} ${d} ${u}`,fill:"none",stroke:o,"stroke-width":r,"stroke-opacity":a,"stroke-linecap":"round"})};this.circle=(e,t,s,n,r)=>{this.put("circle",{cx:e,cy:t,r:s,fill:n,stroke:r,"stroke-width":r&&2})};this.image=(e,t,s,n,r)=>{let o=e instanceof HTMLCanvasElement?e.toDataURL("image/png"):e.src;this.put("image",{x:t,y:s,width:n,height:r,href:o,preserveAspectRatio:"none",style:"image-rendering:pixelated"})}}put(e,t,s=""){let n=Object.entries(t).filter(([,r])=>r!==void 0).map(([r,o])=>`${r}="${at(String(typeof o=="number"?re(o):o))}"`).join(" ");this.parts.push(`<${e} ${n}${s?`>${s}</${e}>`:"/>"}`)}width(e,t,s){return Wt(e,t,s)}file(e,t,s){let[n,r]=[re(e),re(t)],a=`<svg xmlns="http://www.w3.org/2000/svg" ${`width="${n}" height="${r}" viewBox="0 0 ${n} ${r}"`} font-family="${at(jt)}">`,l=`<rect width="100%" height="100%" fill="${s}"/>`;return`${a}${l}${this.parts.join("")}</svg>
`}};function at(i){return i.replace(/[&<>"]/g,e=>({"&":"&amp;","<":"&lt;",">":"&gt;",'"':"&quot;"})[e])}function A(i,e,t,s){if(i.width(e,t)<=s)return e;let n=[...e];for(;n.length>1&&i.width(`${n.join("")}…`,t)>s;)n.pop();return`${n.join("")}…`}function P(i,e,t){let s=Math.max(1,window.devicePixelRatio||1);i.width=Math.max(1,Math.round(e*s)),i.height=Math.max(1,Math.round(t*s)),i.style.width=`${e}px`,i.style.height=`${t}px`;let n=i.getContext("2d");return n.setTransform(s,0,0,s,0,0),n.clearRect(0,0,e,t),new Z(n)}var Ee=1e3,ue=28;function _s(i){let{current:e,state:t}=i,{provenance:s}=e.entry,n=s.name??s.model??"",r=t.head===null?"":`, head ${t.head}`;return[`${i.name(e)}, ${e.depthName(t.depth).toLowerCase()}${r}`,n,`mixlens ${i.payload.mixlens}`].filter(Boolean).join(" · ")}var lt=class{constructor(e,t){this.inner=e;this.by=t;this.rect=(e,t,...s)=>this.inner.rect(e+this.by,t+this.by,...s);this.text=(e,t,...s)=>this.inner.text(e+this.by,t+this.by,...s);this.circle=(e,t,...s)=>this.inner.circle(e+this.by,t+this.by,...s);this.curve=(e,t,s,n,...r)=>this.inner.curve(e+this.by,t+this.by,s+this.by,n+this.by,...r);this.image=(e,t,s,...n)=>this.inner.image(e,t+this.by,s+this.by,...n);this.width=(...e)=>this.inner.width(...e)}};function ht(i,e,t){let s=Ee-2*ue,n=i.paint(new lt(t,ue),e,s);return t.text(ue,ue+n+22,_s(e),{size:12,fill:e.palette.quiet}),n+2*ue+22}function Dt(i,e){let t=new de,s=ht(i,e,t);return t.file(Ee,s,e.palette.paper)}function It(i,e,t=2){let s=ht(i,e,new de),n=document.createElement("canvas");n.width=Ee*t,n.height=Math.round(s*t);let r=n.getContext("2d");return r.scale(t,t),r.fillStyle=e.palette.paper,r.fillRect(0,0,Ee,s),ht(i,e,new Z(r)),new Promise((o,a)=>n.toBlob(l=>l?o(l):a(new Error("The picture is too large for this browser.")),"image/png"))}function _t(i){let e=t=>{let s=/^[=@+\t\r]/.test(t)||/^-(?![\d.])/.test(t)?`'${t}`:t;return/[",\n\r]/.test(s)?`"${s.replaceAll('"','""')}"`:s};return`${i.map(t=>t.map(e).join(",")).join(`\r
`)}\r
`}function Gt(i,e){let[t,...s]=i.rows(e),{current:n,state:r}=e,o=n.depthName(r.depth),{provenance:a}=n.entry;return`${JSON.stringify({state:r,depth:o,provenance:a,columns:t,rows:s},null,2)}
`}function pe(i,e,t){let s=typeof e=="string"?new Blob([e],{type:t}):e,n=document.createElement("a");n.href=URL.createObjectURL(s),n.download=i,n.click(),setTimeout(()=>URL.revokeObjectURL(n.href),1e4)}function Bt(i,e,t){let s=h("summary",{},"Save"),n=h("details",{class:"menu"},s),r=(c,d)=>h("button",{type:"button",onclick:async()=>{n.open=!1;try{await d()}catch(p){s.textContent="Not possible here",s.title=p.message,e.actions.announce(p.message)}}},c),o=c=>`mixlens-${e.state.view}.${c}`,a=()=>It(i(),e),l=[r("Picture (PNG)",async()=>pe(o("png"),await a(),"image/png")),r("Drawing (SVG)",()=>pe(o("svg"),Dt(i(),e),"image/svg+xml")),r("Numbers (CSV)",()=>pe(o("csv"),_t(i().rows(e)),"text/csv")),r("Numbers (JSON)",()=>pe(o("json"),Gt(i(),e),"application/json")),r("Copy the picture",()=>navigator.clipboard.write([new ClipboardItem({"image/png":a()})]))];return t&&l.push(r("Copy a link to this view",()=>navigator.clipboard.writeText(location.href))),n.append(h("div",{},...l)),n.addEventListener("keydown",c=>{c.key==="Escape"&&(n.open=!1)}),n}function Ut(i){if(i?.format!=="mixlens")throw new Error("This is not a mixlens payload.");if(i.version!==1)throw new Error(`This viewer shows payloads of version 1, not ${i.version}.`);return i}var ct=["answer","text","map","heads","flow","compare"],Gs=["none","special","first","both","others"];function dt(i,e){let t=new URLSearchParams,s=(n,r,o)=>{JSON.stringify(r)!==JSON.stringify(o)&&t.set(n,String(r??""))};return s("view",i.view,e.view),s("measure",i.map,e.map),s("with",i.other,e.other),s("target",i.target,e.target),s("layer",i.depth,e.depth),s("rows",i.rows,e.rows),s("head",i.head,e.head),s("unit",i.unit,e.unit),s("from",i.threshold,e.threshold),s("open",i.open,e.open),s("node",i.node,e.node),s("hide",i.hide,e.hide),s("method",i.method,e.method),s("part",i.part,e.part),s("follow",i.follow,e.follow),s("theme",i.theme,e.theme),t.toString()}function ut(i,e){let t=new URLSearchParams(i.replace(/^#/,"")),s=(c,d)=>{let u=t.get(c),p=Number(u);return u!==null&&u!==""&&Number.isFinite(p)?p:d},n=(c,d)=>t.get(c)===""?null:t.has(c)?s(c,-1):d,r=(c,d,u)=>d.find(p=>p===t.get(c))??u,o=c=>(t.get(c)??"").split(",").filter(Boolean).map(Number),a=t.get("layer"),l=o("node");return{view:r("view",ct,e.view),map:s("measure",e.map),other:n("with",e.other),target:s("target",e.target),depth:a?ve(a):e.depth,rows:r("rows",["each","upto"],e.rows),head:n("head",e.head),unit:r("unit",["tokens","words","segments"],e.unit),threshold:s("from",e.threshold),open:t.has("open")?o("open"):e.open,node:l.length===2?[l[0],l[1]]:null,hide:r("hide",Gs,e.hide),method:s("method",e.method),part:t.get("part")??e.part,follow:r("follow",["words","sentences"],e.follow),theme:r("theme",["auto","light","dark"],e.theme)}}var $e=class{constructor(e){this.handlers=e;this.words=[];this.sentenceOf=[];this.follow="words";this.key="";this.element=h("div",{class:"answer-text",role:"listbox","aria-label":"Answer",dir:"auto",onclick:t=>this.at(t,s=>this.handlers.choose(s)),onmousemove:t=>this.over(t),onmouseleave:()=>this.handlers.point(null),onfocusin:t=>this.at(t,s=>this.handlers.point(s)),onfocusout:()=>this.handlers.point(null),onkeydown:t=>this.typed(t)})}partOf(e){let t=e.target.closest("[data-word], [data-cites]");if(!t)return null;if(t.dataset.cites!==void 0)return`s${Number(t.dataset.cites)}`;let s=Number(t.dataset.word),n=this.sentenceOf[s];return this.follow==="sentences"&&n>=0?`s${n}`:`w${s}`}at(e,t){let s=this.partOf(e);s&&t(s)}over(e){let t=this.partOf(e);t&&this.handlers.point(t)}typed(e){let t=this.words.indexOf(e.target);if(t<0)return;let s={ArrowRight:1,ArrowLeft:-1,ArrowDown:1,ArrowUp:-1}[e.key];if(e.key==="Enter"||e.key===" ")this.at(e,this.handlers.choose);else if(e.key==="Escape")this.handlers.choose("");else if(e.key==="Home")this.focus(0);else if(e.key==="End")this.focus(this.words.length-1);else if(s)e.key==="ArrowUp"||e.key==="ArrowDown"?this.focusSentence(t,s):this.focus(t+s);else return;e.preventDefault()}focusSentence(e,t){let s=this.sentenceOf[e]+t,n=this.sentenceOf.indexOf(s);n>=0&&this.focus(n)}focus(e){let t=Math.max(0,Math.min(this.words.length-1,e));for(let s of this.words)s.tabIndex=-1;this.words[t].tabIndex=0,this.words[t].focus()}update(e){let{about:t}=e.answer;this.follow=e.state.follow;let{name:s}=t.methods[e.state.method],n=`${s} ${t.pieces.length}`;if(n===this.key)return;this.key=n;let r=this.words.findIndex(u=>u.tabIndex===0),o=new Map;this.words=[],this.sentenceOf=[];let a=t.sentences.map((u,p)=>{let m=-1;for(let[,f,g]of t.pieces)g===p&&(m=f);return m}),l=[],c=t.pieces.reduce((u,[p])=>u+p.length,0);this.element.classList.toggle("long",c>700);for(let[u,p,m]of t.pieces){if(p<0){l.push(document.createTextNode(l.length?u:u.trimStart()));continue}let f=h("span",{class:"token",role:"option","data-word":p,tabindex:"-1"},_(u));this.words.push(f),this.sentenceOf.push(m),l.push(f),m>=0&&a[m]===p&&l.push(document.createTextNode("⁠"),this.cited(m,t.citations[s]?.[m]??[],o))}this.element.replaceChildren(...l);let d=this.words[Math.max(0,r)];d&&(d.tabIndex=0)}cited(e,t,s){let n=t.map(r=>(s.has(r)||s.set(r,s.size+1),`[${s.get(r)}]`));return h("span",{class:"cites","data-cites":e,"aria-hidden":"true",title:"What this sentence rests on"},n.join(""))}mark(e,t){this.words.forEach((s,n)=>{let r=e===`w${n}`||e===`s${this.sentenceOf[n]}`,o=t===`w${n}`||t===`s${this.sentenceOf[n]}`;s.classList.toggle("target",r),s.classList.toggle("pointed",r&&!o),s.setAttribute("aria-selected",String(o))})}};var Bs=.12,Ae=class{constructor(e,t){this.scroller=e;this.show=t;this.element=h("div",{class:"minimap","aria-hidden":"true"});this.window=h("div",{class:"minimap-window"});this.marks=h("div",{class:"minimap-marks"});this.passages=[];this.frame=0;this.last=null;this.starts=[];this.length=1;this.element.addEventListener("click",s=>this.jump(s)),e.addEventListener("scroll",()=>this.follow(),{passive:!0})}build(e,t){this.passages=t,this.starts=[];let s=0,n=[];for(let{document:o,pieces:a}of e.about.blocks)if(!(o<0)){n.push(s);for(let[l,c]of a)c>=0&&(this.starts[c]=s),s+=l.length;s+=60}this.length=Math.max(1,s);let r=n.slice(1).map(o=>X(h("span",{class:"edge"}),{top:`${100*o/this.length}%`}));this.element.replaceChildren(...n.length<=60?r:[],this.marks,this.window),this.follow()}mark(e,t){if(e&&t&&(this.last=[e,t]),!this.last)return;let[s,n]=this.last;this.marks.replaceChildren(...s.filter(([,r])=>r>=Bs).map(([r,o])=>X(h("span"),{top:`${100*this.starts[r]/this.length}%`,background:k(y(n,.3+.7*o))}))),this.follow()}follow(){cancelAnimationFrame(this.frame),this.frame=requestAnimationFrame(()=>{let{scrollTop:e,scrollHeight:t,clientHeight:s}=this.scroller,n=Math.max(1,t);this.element.hidden=t<=s+4,this.window.style.top=`${100*e/n}%`,this.window.style.height=`${100*s/n}%`})}jump(e){let t=this.element.getBoundingClientRect(),s=(e.clientY-t.top)/t.height*this.length,n=0;this.starts.forEach((r,o)=>{Math.abs(r-s)<Math.abs(this.starts[n]-s)&&(n=o)}),this.passages[n]&&this.show(n)}};var Vt=6,Us=240,Vs=60,Js=.15,Ks=["#2a74bd","#8a6bbf","#b5528c","#c9793b","#8d9196","#4f9d86","#59626d"],Ce=class{constructor(){this.head=h("h1",{class:"answer"});this.facts=h("div",{class:"facts"});this.bar=h("div",{class:"kinds",role:"img"});this.legend=h("p",{class:"legend kinds-legend"});this.listName=h("h2",{});this.list=h("ol",{class:"cited"});this.methodsName=h("h2",{},"What the methods say");this.methods=h("table",{class:"methods"});this.scroller=h("div",{class:"documents",tabindex:"0",role:"region","aria-label":"Documents"});this.others=h("input",{type:"checkbox"});this.passages=[];this.badges=[];this.lit=[];this.wordSpans=new Map;this.built=null;this.hovered=null;this.frame=0;this.drawn="";this.kept="";this.text=new $e({point:e=>this.point(e),choose:e=>this.context.actions.set({part:e===this.context.state.part?"":e})}),this.map=new Ae(this.scroller,e=>this.show(e,!1)),this.others.addEventListener("change",()=>{this.scroller.classList.toggle("all",this.others.checked),this.map.mark()}),this.element=h("div",{class:"answer-view"},this.head,this.facts,h("div",{class:"answer-columns"},h("div",{class:"answer-side"},h("h2",{},"Answer"),this.text.element,this.bar,this.legend),h("div",{class:"details-side"},this.listName,this.list,this.methodsName,this.methods),h("div",{class:"documents-side"},h("div",{class:"documents-head"},h("h2",{},"Documents"),h("label",{},this.others," question and template too")),h("div",{class:"documents-frame"},this.scroller,this.map.element))))}get scores(){return this.context.answer}get part(){return this.hovered??this.context.state.part}get scored(){return this.scores.of(this.context.state.method,this.part)}point(e){e!==this.hovered&&(this.hovered=e,cancelAnimationFrame(this.frame),this.frame=requestAnimationFrame(()=>this.light()))}update(e){this.context=e,this.built!==e.answer&&this.build(),this.drawn="",this.text.update(e),this.light();let t=e.state.part!==this.kept;if(this.kept=e.state.part,this.kept&&t){let{passages:s,documents:n}=this.scored,r=s?N(s,1)[0]:this.firstOf(N(n,1)[0]);r!==void 0&&this.show(r,!1)}}firstOf(e){if(e!==void 0)return this.scores.passages.findIndex(t=>t.document===e)}build(){let{about:e}=this.built=this.scores;this.passages=[],this.badges=[],this.lit=[],this.wordSpans.clear(),this.scroller.replaceChildren(...e.blocks.map(t=>this.block(t))),this.map.build(this.scores,this.passages),this.others.closest("label").hidden=e.blocks.every(t=>t.document>=0)}block({name:e,kind:t,document:s,pieces:n}){let r=h("span",{class:"badge"});s>=0&&(this.badges[s]=r);let o=n.map(([l,c])=>c<0?h("span",{},l):this.passages[c]=h("span",{class:"passage"},l)),a=s>=0||t==="template"||t===e?e:`${e} · ${t}`;return h("section",{class:s>=0?"document":"document other"},h("h3",{dir:"auto"},a,r),h("p",{dir:"auto"},...o))}words(e){let t=this.wordSpans.get(e);if(t)return t;t=[];let{text:s}=this.scores.passages[e],n=[],r=0;for(let o of s.matchAll(st)){let a=h("span",{class:"word"},o[0]);n.push(s.slice(r,o.index),a),t.push(a),r=o.index+o[0].length}return n.push(s.slice(r)),this.passages[e].replaceChildren(...n),this.wordSpans.set(e,t),t}show(e,t=!0){let s=this.passages[e],{scroller:n}=this,r=()=>{let o=s.getBoundingClientRect(),a=n.getBoundingClientRect();n.scrollTop+=o.top-a.top-a.height/3};r(),requestAnimationFrame(r),t&&(s.classList.remove("found"),s.offsetWidth,s.classList.add("found"))}light(){let{state:e,palette:t}=this.context,s=`${e.method} ${this.part} ${t.paper}`;if(s===this.drawn)return;this.drawn=s;let{documents:n,passages:r,words:o}=this.scored,a=ce(n);for(let d of this.lit)d.style.background="",d.style.color="";this.lit=[];let l=r??this.spread(n),c=[];this.shadeBest(l,Us,.5,(d,u)=>(c.push([d,u]),this.passages[d])),o&&this.shadeBest(o,Vs,1,d=>{let u=this.scores.passageOf(d);return this.words(u)[d-this.scores.firstWord[u]]}),this.badges.forEach((d,u)=>{d.textContent=a[u]>=.005?w(a[u]):"",d.style.setProperty("--share",String(a[u]))}),this.map.mark(c,t),this.text.mark(this.part,e.part),this.sentence(a),this.fillKinds(),this.fillList(a),this.fillMethods()}spread(e){return Float64Array.from(this.scores.passages,t=>e[t.document])}shadeBest(e,t,s,n){let r=N(e,t),o=r.length?e[r[0]]:0;for(let a of r){let l=e[a]/o;if(l<Js)break;let c=n(a,l);if(!c)continue;let d=y(this.context.palette,l*s);c.style.background=k(d),c.style.color=Y(d),this.lit.push(c)}}sentence(e){let{scores:t,part:s}=this,n=N(e,1)[0],o=(s[0]==="w"?h("b",{},T(t.text(s))):null)??(s?"This sentence":"This answer");n===void 0?this.head.replaceChildren(o," rests on no document."):t.documents.length===1?this.head.replaceChildren(...this.onPassage(o)):this.head.replaceChildren(o," rests most on ",h("b",{},T(t.documents[n])),` (${w(e[n])} of the documents)`);let{about:a}=t,c=a.methods.map((p,m)=>N(t.of(m,s).documents,1)[0]).filter(p=>p===n).length,d=a.methods[this.context.state.method],u=[`By ${d.name}, ${d.reading}.`];a.methods.length>1&&n!==void 0&&t.documents.length>1&&(u[0]+=` ${c} of ${a.methods.length} methods put this document first.`),this.facts.replaceChildren(h("p",{},u.join(" ")))}onPassage(e){let{passages:t}=this.scored,s=t?N(t,1)[0]:void 0;return s===void 0?[e," rests on this document"]:[e," rests most on ",h("b",{},`“${T(this.scores.passages[s].text)}”`)]}fillKinds(){let{kinds:e}=this.scored;if(this.bar.hidden=this.legend.hidden=!e,!e)return;let t=this.scores.about.kinds.map(o=>o==="document"?"documents":o),s=0;for(let o of e)s+=o;let n=t.map((o,a)=>[o,e[a]/(s||1),Ks[a]]),r=n.map(([o,a])=>`${o} ${w(a)}`).join(", ");this.bar.setAttribute("aria-label",`Shares of all sources: ${r}`),this.bar.replaceChildren(...n.map(([,o,a])=>X(h("span"),{"flex-grow":String(o),background:a}))),this.legend.replaceChildren(...n.map(([o,a,l])=>h("span",{},X(h("i"),{background:l}),`${o} `,h("span",{class:"quiet"},w(a)))))}ranked(e){let{passages:t,documents:s}=this.scored;if(!t)return N(s,Vt).map(r=>({passage:this.firstOf(r),share:e[r],isCut:this.scores.passages.filter(({document:o})=>o===r).length>1}));let n=ce(t);return N(t,Vt).map(r=>({passage:r,share:n[r],isCut:!1}))}fillList(e){let t=this.ranked(e),s=this.part[0]==="w"?`“${T(this.scores.text(this.part))}”`:"";this.listName.textContent=s?`Passages behind ${s}`:"Passages";let n=t[0]?.share??1;this.list.replaceChildren(...t.map(({passage:r,share:o,isCut:a})=>{let{text:l,document:c}=this.scores.passages[r],d=k(y(this.context.palette,.35+.6*o/n));return h("li",{},h("button",{type:"button",class:"passage-link",onclick:()=>this.show(r)},h("span",{class:"passage-head"},h("b",{},T(this.scores.documents[c])),h("span",{class:"quiet"},w(o))),h("span",{class:"passage-text",dir:"auto"},a?`${l} …`:l)),X(h("span",{class:"bar"}),{width:`${100*o/n}%`,background:d}))}))}fillMethods(){let{scores:e,part:t}=this,{methods:s}=e.about;if(this.methods.hidden=this.methodsName.hidden=s.length<2||e.documents.length<2,this.methods.hidden)return;let n=s.map(({name:r},o)=>{let{documents:a}=e.of(o,t),l=N(a,1)[0],c=o===this.context.state.method,d=()=>this.context.actions.set({method:o});return h("tr",{class:c?"chosen":null},h("th",{scope:"row"},h("button",{type:"button",class:"source","aria-pressed":String(c),onclick:d},r)),h("td",{},l===void 0?"none":T(e.documents[l])),h("td",{},l===void 0?"":w(ce(a)[l])))});this.methods.replaceChildren(h("tbody",{},...n))}paint(e,t,s){this.context=t;let{palette:n}=t;((d,u,p,m,f)=>e.text(0,d,A(e,u,p,s),{size:p,fill:m,weight:f}))(20,this.head.textContent??"",18,n.ink,600);let o=48,a=this.scores.about.pieces.map(([d])=>d).join("");for(let d of Ys(e,a.trim(),16,s))e.text(0,o,d,{size:16,fill:n.ink}),o+=24;o+=12;let l=this.ranked(ce(this.scored.documents)),c=l[0]?.share??1;for(let{passage:d,share:u}of l){let{text:p,document:m}=this.scores.passages[d],f=k(y(n,.35+.6*u/c));e.rect(0,o-12,90*(u/c),12,f),e.text(100,o-2,w(u),{size:13,fill:n.quiet});let g=`${this.scores.documents[m]}: ${p.replace(/\s+/g," ")}`;e.text(160,o-2,A(e,g,13,s-160),{size:13,fill:n.ink}),o+=24}return o}rows(e){this.context=e;let{scores:t}=this,s=[["method","part","document","passage","score"]],{name:n}=t.about.methods[e.state.method],r=this.part?t.text(this.part):"answer",{passages:o,documents:a}=this.scored;if(o)for(let l of N(o,o.length)){let{text:c,document:d}=t.passages[l];s.push([n,r,t.documents[d],c,o[l].toPrecision(4)])}else a.forEach((l,c)=>s.push([n,r,t.documents[c],"",l.toPrecision(4)]));return s}};function Ys(i,e,t,s){let n=[];for(let r of e.split(`
`)){let o="";for(let a of r.split(/\s+/)){let l=o?`${o} ${a}`:a;o&&i.width(l,t)>s?(n.push(o),o=a):o=l}n.push(o)}return n}function pt(i){let e=Array.from({length:i.length},(s,n)=>n).sort((s,n)=>Math.abs(i[n])-Math.abs(i[s])),t=new Float64Array(i.length);for(let s=0;s<e.length;){let n=s;for(;n<e.length&&Math.abs(i[e[n]])===Math.abs(i[e[s]]);)n++;for(let r=s;r<n;r++)t[e[r]]=(s+1+n)/2;s=n}return t}function mt(i,e){let t=pt(i),s=pt(e),n=(t.length+1)/2,r=0,o=0,a=0;for(let l=0;l<t.length;l++)r+=(t[l]-n)*(s[l]-n),o+=(t[l]-n)**2,a+=(s[l]-n)**2;return o&&a?r/Math.sqrt(o*a):Number.NaN}function Se(i,e){return Array.from(i).filter((t,s)=>s!==e)}function oe(i,e){let t=Array.from(i[0]??[],(r,o)=>o).filter(r=>r!==e),s=i.map(r=>pt(t.map(o=>r[o])));return t.map((r,o)=>{let a=i.map(u=>Math.abs(u[r])),l=a.indexOf(Math.max(...a)),c=a.indexOf(Math.min(...a)),d=a[l]-a[c];return{group:r,high:l,low:c,highRank:s[l][o],lowRank:s[c][o],weight:d}}).sort((r,o)=>o.weight-r.weight)}var Xs=6;function Pe(i){let{current:e,state:t}=i;return i.measured.filter(s=>s.targets===e.targets&&s.sources===e.sources&&s.holds(t.target)).map(s=>({measured:s,values:i.incoming(s,{depth:i.depthFor(s),head:null})}))}function Q(i,e,t){return mt(Se(e.values,i.own),Se(t.values,i.own))}function He(i,e){let t=e.find(a=>a.measured===i.current),s=e.filter(a=>a!==t);if(!t||!s.length)return null;let n=s.filter(a=>a.measured.entry.layers.length>0),r=(n.length?n:s).filter(a=>a.measured.entry.measure!=="random"),o=a=>{let l=Q(i,t,a);return Number.isNaN(l)?2:l};return(r.length?r:s).reduce((a,l)=>o(l)<o(a)?l:a)}var Zs=.95;function Kt(i,e){let t=e.find(l=>l.measured===i.current)??e[0],s=i.cueGroup,n=new Map(e.map(l=>[l,s===null?-Q(i,t,l)||0:$(l.values,i.own).findIndex(({group:c})=>c===s)])),r=l=>+(l.measured.entry.measure==="random"),o=[...e].sort((l,c)=>r(l)-r(c)||Jt(n.get(l),s)-Jt(n.get(c),s)||+(c===t)-+(l===t)),a=[];for(let l of o){let c=a.find(([d])=>!r(l)&&(s===null||n.get(d)===n.get(l))&&Q(i,d,l)>=Zs);c?c.push(l):a.push([l])}return a}var Jt=(i,e)=>e!==null&&i<0?Number.MAX_SAFE_INTEGER:i;function ft(i,e){let t=i.name(e[0].measured);return e.length>1?`${t} +${e.length-1}`:t}function ze(i){return i>.8?"agree":i>.4?"agree in part":"disagree"}function Yt(i,e){let{own:t,sources:s}=i,n=e.map(u=>u.values),r=oe(n,t).slice(0,Xs),o=Math.max(...n.map(u=>S(u,t))),a=n.map(u=>$(u,t).map(p=>p.group)),l=e.flatMap(u=>[h("th",{scope:"col",colspan:"2"},i.name(u.measured)),h("th",{scope:"col",class:"place"},"rank")]),c=u=>n.flatMap((p,m)=>[h("td",{class:"bars"},gt(i,p[u],o)),h("td",{class:"number"},w(p[u])),h("td",{class:"place"},Qs(a[m].indexOf(u)))]),d=r.filter(u=>u.weight>0).map(({group:u})=>{let p=h("th",{scope:"row",dir:"auto"},s.label(u));return h("tr",{},p,...c(u))});return[h("thead",{},h("tr",{},h("th",{scope:"col"},"token"),...l)),h("tbody",{},...d)]}var Qs=i=>i<0?"–":`no. ${i+1}`;function gt(i,e,t,s){let n=h("span",{class:"bar"});return n.style.width=`${Math.min(100,t>0?Math.abs(e)/t*100:0)}%`,n.style.backgroundColor=s??k(y(i.palette,e<0?-.72:.72)),n}function Xt(i,e){let t=e.map(([r])=>Se(r.values,i.own)),s=e.map((r,o)=>h("th",{scope:"col"},Le(o))),n=e.map((r,o)=>{let a=r.map(d=>i.name(d.measured)).join(", "),l=h("th",{scope:"row",title:a},h("b",{},Le(o)),` ${ft(i,r)}`),c=t.map((d,u)=>o===u?h("td",{class:"same"},"·"):en(i,mt(t[o],d)));return h("tr",{},l,...c)});return h("table",{},h("thead",{},h("tr",{},h("td"),...s)),h("tbody",{},...n))}function en(i,e){if(Number.isNaN(e))return h("td",{},"–");let t=e.toFixed(2).replace("-","−"),s=h("td",{title:t},h("span",{},t)),n=y(i.palette,e*.9);return s.style.backgroundColor=k(n),s.style.color=Y(n),s}function Le(i){return i<26?String.fromCharCode(97+i):String(i)}var es=/[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;function Zt(i){for(let e of i){let t=/\p{L}/u.exec(e.replace(/^[[<].*[\]>]$/,""));if(t)return es.test(t[0])}return!1}function tn(i){return i.split(`
`).flatMap((e,t)=>{let s=t?[h("br")]:[];return e&&s.push(document.createTextNode(e.replace(/\s+/g," "))),s})}function Qt(i){let e=new Map,t=i.unit==="segments";return i.text.segments?.forEach(([s,n,r],o)=>{t&&i.open.has(o)?e.set(s,h("div",{class:"fold","data-fold":o,"aria-hidden":"true",title:"Close"},`▾ ${_(r??"")} ${n-s} tokens`)):!t&&r!==void 0&&e.set(s,h("div",{class:"segment-name"},_(r)))}),e}var ee=class{constructor(e,t,s=!1){this.handlers=t;this.ofTargets=s;this.grouping=null;this.items=[];this.shades=[];this.palette=null;this.marked=-1;this.gone=null;this.inSight=null;this.element=h("div",{class:"reading",role:"listbox","aria-label":e,onclick:n=>this.at(n,r=>this.handlers.choose(r)),onmousemove:n=>this.over(n),onmouseleave:n=>this.handlers.point(null,n),onkeydown:n=>this.key(n),onfocusin:n=>this.at(n,r=>this.handlers.point(r,null)),onfocusout:()=>this.handlers.point(null,null)})}at(e,t){let s=e.target.closest("[data-fold]");s&&e.type==="click"&&this.handlers.close?.(Number(s.dataset.fold));let n=e.target.closest("[data-group]");n&&t(Number(n.dataset.group))}over(e){let t=e.target.closest("[data-group]"),s=t?Number(t.dataset.group):null;this.handlers.point(s,e)}key(e){let t=this.items.indexOf(e.target);if(t<0)return;let s=this.element.matches(":dir(rtl)")?"ArrowLeft":"ArrowRight",n=s==="ArrowRight"?"ArrowLeft":"ArrowRight",r={[s]:t+1,[n]:t-1,ArrowDown:t+1,ArrowUp:t-1,Home:0,End:this.items.length-1};if(e.key==="Enter"||e.key===" ")this.handlers.choose(t);else if(e.key in r){let o=Math.max(0,Math.min(this.items.length-1,r[e.key]));this.focus(o)}else return;e.preventDefault()}focus(e){for(let t of this.items)t.tabIndex===0&&(t.tabIndex=-1);this.items[e].tabIndex=0,this.items[e].focus()}show(e,t){e!==this.grouping&&(this.build(e,t),this.palette=this.gone=null),t.palette!==this.palette&&(this.shades=new Array(e.size).fill(Number.NaN),this.palette=t.palette);let s=t.goneFrom(e.text);s!==this.gone&&(this.gone=s,this.items.forEach((n,r)=>{let{start:o,stop:a}=e.groups[r],l=!0;for(let c=o;c<a;c++)l&&=s.has(c);n.classList.toggle("left-out",l)}))}holds(e,{start:t,stop:s}){if(!this.ofTargets)return!0;for(let n=t;n<s;n++)if(e.current.holds(n))return!0;return!1}get isEmpty(){return!this.element.firstChild}build(e,t){let s=this.items.indexOf(this.element.getRootNode().activeElement);this.grouping=e,this.marked=-1;let{text:n}=e,r=[],o=Qt(e);this.items=e.groups.map((c,d)=>{let u=t.isPatch(n,c.start)||!this.holds(t,c),p=o.get(c.start);p?r.push(p):!u&&c.segment===null&&r.push(...tn(n.gaps[c.start]));let m=e.special(d)&&!/mask/i.test(n.labels[c.start]),f=h("span",{class:["token",m&&"special",c.segment!==null&&"segment"].filter(Boolean).join(" "),role:"option",dir:"auto",tabindex:"-1","aria-selected":"false","data-group":d}),g=e.label(d);return f.append(g),c.segment!==null&&f.append(h("small",{},`${c.stop-c.start} tokens`),h("small",{})),u||r.push(f),!u&&g.endsWith("↵")&&r.push(h("br")),f}),this.element.replaceChildren(...r),this.element.dir=Zt(n.shown)?"rtl":"ltr";let a=this.element.querySelectorAll(".token").length;this.element.dataset.size=a<=40?"large":a<=150?"middle":a<=700?"small":"tiny";let l=this.items[Math.max(0,s)]??this.items[0];l&&(l.tabIndex=0),s>=0&&l?.focus()}find(e){let t=this.items[e];if(!t)return;this.reveal(e),t.classList.remove("found"),t.offsetWidth,t.classList.add("found");let s=t.getBoundingClientRect();(s.top<0||s.bottom>window.innerHeight)&&t.scrollIntoView({block:"center"})}shadeBy(e,t,s,n,r){this.items.forEach((a,l)=>{let c=s>0&&l!==n?Math.round(t[l]/s*64)/64:0;if(this.shades[l]===c)return;this.shades[l]=c;let d=y(e.palette,c);a.style.backgroundColor=c===0?"":k(d),a.style.color=c===0?"":Y(d),this.grouping.groups[l].segment!==null&&(a.lastElementChild.textContent=w(t[l]))}),r&&n>=0&&this.inSight!==this.items[n]&&this.reveal(n),this.marked>=0&&this.items[this.marked]?.classList.remove("target","pointed"),this.marked=n;let o=this.items[n];if(o?.classList.add("target"),o?.classList.toggle("pointed",!r),r){let a=this.element.getRootNode().activeElement,l=a&&this.element.contains(a);this.items.forEach((c,d)=>{let u=String(d===n);c.getAttribute("aria-selected")!==u&&c.setAttribute("aria-selected",u),!l&&c.tabIndex===0!=(d===Math.max(0,n))&&(c.tabIndex=d===Math.max(0,n)?0:-1)})}}reveal(e){let t=this.items[e];this.inSight=t;let{element:s}=this,n=t.offsetTop-s.offsetTop,r=n<s.scrollTop,o=n+t.offsetHeight>s.scrollTop+s.clientHeight;(r||o)&&(s.scrollTop=n-s.clientHeight/2)}describe(e,t){this.items[e]?.setAttribute("aria-label",t)}paint(e,t,s,n,r,o,a,l){let c=this.grouping,{palette:d}=t,u=c.size<=40?22:c.size<=150?17:13,p=u*1.8,m=c.groups.map((C,H)=>A(e,c.label(H),u,r-12)),f=Zt(c.text.shown),g=Qt(c),b=0,v=n+p*.8;return m.forEach((C,H)=>{let{start:M}=c.groups[H];if(t.isPatch(c.text,M)||!this.holds(t,c.groups[H]))return;let j=g.get(M)?.textContent;j&&(v+=b>0?p:0,e.text(s,v,j,{size:12,fill:d.quiet}),[b,v]=[0,v+p]);let G=j?"":c.text.gaps[M],z=e.width(C,u)+8;b>0&&(G.includes(`
`)||b+z>r)?(b=0,v+=p):b>0&&G&&(b+=u*.16);let B=a>0&&H!==l?o[H]/a:0,ge=y(d,B),yt=f?s+r-b-z:s+b,ws=H===l?d.ink:void 0;e.rect(yt,v-u*1.05,z,u*1.45,B?k(ge):null,ws,2,5);let vs=B?Y(ge):c.special(H)&&H!==l?d.quiet:d.ink;e.text(yt+z/2,v,C,{size:u,fill:vs,align:"center",rtl:es.test(C)}),b+=z}),v+p*.5-n}};function Oe(i){let e=i.map(([s,n])=>`${E(s)} ${w(n)}`),t=e.pop()??"nothing";return e.length?`${e.join(", ")} and ${t}`:t}var ts=190,ie=22,Ne=class{constructor(){this.headline=h("h1",{class:"answer"});this.choices=h("div",{class:"pair-choices"});this.names=[h("h2",{}),h("h2",{})];this.tops=[h("p",{class:"quiet"}),h("p",{class:"quiet"})];this.disputed=h("table",{class:"disputes"});this.matrix=h("div",{class:"wide matrix",tabindex:"0",role:"region","aria-label":"Agreement of measures"});this.leftOut=h("details",{class:"behind"});this.rowsShown=[];this.groups=[];this.order=h("p",{class:"quiet hint"});this.members=h("p",{class:"quiet members"});this.cell=10;this.left=ts;let e=()=>new ee("The text: choose a target",{choose:s=>this.choose(s),close:s=>this.close(s),point:(s,n)=>this.point(s,n)});this.readings=[e(),e()],this.canvas=h("canvas",{role:"img",tabindex:"0",onmousemove:s=>this.over(s),onmouseleave:()=>this.context.actions.tip(null,[]),onclick:s=>this.pick(Math.floor(s.offsetY/ie))}),this.table=D("Measures",()=>this.rows());let t=s=>h("section",{class:"pair-side"},this.names[s],this.readings[s].element,this.tops[s]);this.element=h("div",{class:"compare-view"},this.headline,this.choices,h("div",{class:"pair"},t(0),t(1)),h("h2",{},"What they dispute"),this.disputed,h("h2",{},"Every measure, this target"),this.order,this.canvas,this.members,this.table,h("h2",{},"Rank agreement"),h("p",{class:"quiet hint"},"Spearman's rank correlation over all sources but the target itself."),this.matrix,this.leftOut)}choose(e){let{start:t,stop:s,segment:n}=this.context.sources.groups[e],{open:r}=this.context.state;if(n!==null)return this.context.actions.set({open:[...r,n]});if(this.context.current.square){for(let o=t;o<s;o++)if(this.context.current.holds(o))return this.context.actions.set({target:o,node:null})}}close(e){let t=this.context.state.open.filter(s=>s!==e);this.context.actions.set({open:t})}point(e,t){if(e===null||!t)return this.context.actions.tip(null,[]);let s=this.context.sources.label(e);this.context.actions.tip(t,[s,...this.pair().map(n=>`${this.context.name(n.measured)}: ${w(n.values[e])}`)])}pair(){let{state:e,measured:t}=this.context;return[e.map,e.other??e.map].map(s=>this.rowsShown.find(n=>n.measured===t[s])).filter(Boolean)}update(e){this.context=e,this.rowsShown=Pe(e);let{state:t,measured:s}=e,n=He(e,this.rowsShown);if(!n){this.refuse();return}this.element.classList.remove("alone");let r=this.rowsShown.map(o=>s.indexOf(o.measured));(t.other===null||t.other===t.map||!r.includes(t.other))&&(t.other=s.indexOf(n.measured)),this.choices.replaceChildren(O(`Compare ${e.name(e.current)} with`,r.filter(o=>o!==t.map).map(o=>[String(o),e.name(s[o])]),String(t.other),o=>e.actions.set({other:Number(o)}))),this.sides(),this.headlines(),this.disputed.replaceChildren(...Yt(e,this.pair())),this.groups=Kt(e,this.rowsShown),this.explainOrder(),this.draw(),this.matrix.replaceChildren(Xt(e,this.groups)),this.fillLeftOut(),I(this.table,()=>this.rows())}explainOrder(){let{context:e,groups:t}=this,s=e.cueGroup,n=s===null?`by their agreement with ${e.name(e.current)}`:`by the rank that they give ${E(T(e.sources.label(s)))}`;this.order.textContent=`Sorted ${n}. Each row is shaded by its own largest share. Point at a cell for its number, click a row to compare with it.`;let r=t.filter(a=>a.length>1);this.members.hidden=r.length===0;let o=r.map(a=>{let l=a.slice(1).map(c=>e.name(c.measured));return`${e.name(a[0].measured)} +${l.length}: ${l.join(", ")}`});this.members.textContent=`Measures that order the sources alike (rank correlation 0.95 or more) share a row. ${o.join(". ")}.`}refuse(){this.element.classList.add("alone"),this.rowsShown=[];let{measure:e}=this.context.current.entry;this.headline.textContent=`Only ${e} holds this target here.`,this.choices.replaceChildren(h("p",{class:"quiet"},"Give the page several measures of the same text to see where they disagree: maps.to_html(path, *others), or mixlens compare … --html out.html."))}sides(){let{context:e}=this;this.pair().forEach(({measured:t,values:s},n)=>{let r=S(s,e.own);this.readings[n].show(e.sources,e),this.readings[n].shadeBy(e,s,r,e.own,!0),this.names[n].textContent=e.name(t);let o=$(s,e.own).slice(0,3).map(a=>[e.sources.label(a.group),a.value]);this.tops[n].textContent=`${t.depthName(e.depthFor(t))}: ${Oe(o)}`})}headlines(){let{context:e}=this,t=this.pair(),s=t.map(c=>c.values),n=Q(e,t[0],t[1]),r=oe(s,e.own)[0],o=h("b",{class:"outlined"},T(e.targets.label(e.targetGroup))),[a,l]=t.map(c=>e.name(c.measured));this.headline.replaceChildren("About ",o,`, ${a} and ${l} ${ze(n)} (rank correlation ${n.toFixed(2)})`),r&&this.headline.append("; they differ most on ",h("b",{},T(e.sources.label(r.group))),`: ${w(s[0][r.group])} against ${w(s[1][r.group])}.`)}draw(){let e=this.element.clientWidth||900,t=this.height(e);this.painted(P(this.canvas,e,t),this.context,0),this.canvas.setAttribute("aria-label",`${this.rowsShown.length} measures in ${this.groups.length} rows by ${this.context.sources.size} sources: the shares of the target, as a heat map. A click compares with that measure.`)}height(e){return this.left=Math.min(ts,Math.round(e*.36)),this.cell=(e-this.left)/this.context.sources.size,this.groups.length*ie+(this.cell>=13?74:6)}painted(e,t,s){let{palette:n,own:r,sources:o,state:a,measured:l}=t;this.groups.forEach((d,u)=>{let{values:p}=d[0],m=s+u*ie,f=S(p,r)||1,g=[l[a.map],l[a.other??-1]],b=d.some(v=>g.includes(v.measured));e.text(this.left-10,m+15,A(e,`${Le(u)}  ${ft(t,d)}`,13,this.left-16),{size:13,align:"right",fill:b?n.ink:n.quiet,weight:b?700:400});for(let v=0;v<o.size;v++){let C=v===r?0:p[v]/f;e.rect(this.left+v*this.cell,m,Math.max(this.cell-(this.cell>6?1:0),.6),ie-2,k(y(n,C)))}});let c=s+this.groups.length*ie;r>=0&&this.cell>=3&&e.rect(this.left+r*this.cell,s-.5,this.cell-1,c-s-1,null,n.ink,1.5,2),this.cell>=13&&o.groups.forEach((d,u)=>e.text(this.left+(u+.5)*this.cell+4,c+12,A(e,o.label(u),12,88),{size:12,rotate:-45,align:"right",fill:u===r?n.ink:n.quiet,weight:u===r?700:400}))}over(e){let t=this.groups[Math.floor(e.offsetY/ie)],s=t?.[0],n=Math.floor((e.offsetX-this.left)/this.cell),r=s&&n>=0&&n<this.context.sources.size;this.canvas.style.cursor=s?"pointer":"",this.context.actions.tip(r?e:null,r?[`${E(this.context.sources.label(n))}: ${w(s.values[n])}`,t.map(o=>this.context.name(o.measured)).join(", ")]:[])}pick(e){let t=this.groups[e]?.[0]?.measured,s=t?this.context.measured.indexOf(t):-1;s>=0&&s!==this.context.state.map&&this.context.actions.set({other:s})}fillLeftOut(){let e=Object.entries(this.context.payload.left_out??{});this.leftOut.hidden=e.length===0,this.leftOut.replaceChildren(h("summary",{},`${e.length} measures left out`),h("dl",{},...e.flatMap(([t,s])=>[h("dt",{},t),h("dd",{},s)])))}paint(e,t,s){if(this.rowsShown.length<2)return 0;e.text(0,20,A(e,this.headline.textContent??"",16,s),{size:16,weight:600,fill:t.palette.ink});let n=40;this.pair().forEach(({measured:o,values:a},l)=>{e.text(0,n+14,t.name(o),{size:13,fill:t.palette.quiet}),n+=20+this.readings[l].paint(e,t,0,n+20,s,a,S(a,t.own),t.own)+10});let r=this.height(s);return this.painted(e,t,n),this.height(this.element.clientWidth||900),n+r}rows(){let{context:e,rowsShown:t}=this;return[["source",...t.map(s=>e.name(s.measured))],...e.sources.groups.map((s,n)=>[e.sources.label(n),...t.map(r=>r.values[n].toPrecision(3))])]}};function ss(i,e,t,s=i.entry.layers.length){let n=sn(i),{start:r,stop:o}=e.groups[t],a=new Float64Array(e.of.length),l=0;for(let u=r;u<o;u++)l+=n[s][u];for(let u=r;u<o;u++)a[u]=l>0?1/l:0;let c=Array.from({length:s+1},()=>new Float64Array(e.size));for(let u=r;u<o;u++)c[s][t]+=a[u]*n[s][u];let d=[];for(let u=s-1;u>=0;u--){let p=new Float64Array(a.length),m=new Map;for(let f=0;f<a.length;f++){if(a[f]===0)continue;let g=a[f];i.eachTransition(u,f,(b,v)=>{p[b]+=g*v;let C=e.of[b]*e.size+e.of[f];m.set(C,(m.get(C)??0)+g*v*n[u][b])})}for(let[f,g]of m){let b=Math.floor(f/e.size);c[u][b]+=g,g>1e-4&&d.push({level:u,source:b,target:f%e.size,value:g})}a=p}return{levels:s+1,mass:c,edges:d}}function sn(i){let e=i.sources.labels.length,t=[new Float64Array(e).fill(1)];return i.entry.layers.forEach((s,n)=>{let r=new Float64Array(e).fill(i.entry.joined?.normalise===!1?0:1);if(i.entry.joined?.normalise===!1)for(let o=0;o<e;o++)i.eachTransition(n,o,(a,l)=>{r[o]+=l*t[n][a]});t.push(r)}),t}function ns(i,e,t){let s=[],n=i.mass.map(()=>[]);for(let o of i.edges)n[o.level].push(o);let r=new Float64Array(i.mass[e].length);r[t]=i.mass[e][t];for(let o=e-1;o>=0;o--){let a=new Float64Array(r.length);for(let l of n[o]){let c=i.mass[o+1][l.target],d=c>0?l.value*r[l.target]/c:0;d>0&&s.push({...l,value:d}),a[l.source]+=d}r=a}r=new Float64Array(r.length),r[t]=i.mass[e][t];for(let o=e;o<i.levels-1;o++){let a=new Float64Array(r.length);for(let l of n[o]){let c=i.mass[o][l.source],d=c>0?l.value*r[l.source]/c:0;d>0&&s.push({...l,value:d}),a[l.target]+=d}r=a}return s}var V=64,rs=40,os=92,nn=1200,Fe=class{constructor(){this.words=h("p",{class:"quiet","aria-live":"polite"});this.shown=h("output",{});this.flow=null;this.key="";this.width=0;this.step=54;this.at=null;this.canvas=W({over:e=>this.over(e),leave:()=>this.leave(),choose:()=>this.trace(),step:(e,t)=>this.walk(e,t)}),this.slider=h("input",{type:"range",min:"0",max:"100",step:"1","aria-label":"Smallest share that is drawn",oninput:()=>this.context.actions.set({threshold:rn(Number(this.slider.value))})}),this.controls=h("label",{class:"field"},h("span",{},"Show from"),this.slider,this.shown),this.table=D("Flow",()=>this.rows()),this.element=h("div",{class:"flow-view"},h("div",{class:"bar-line"},this.words,this.controls),this.canvas,this.table)}update(e){this.context=e;let{current:t,state:s,targets:n}=e,r=this.refusal();if(this.canvas.hidden=this.table.hidden=this.controls.hidden=r!==null,r!==null){this.words.textContent=r;return}let o=this.depth(),a=[s.map,s.target,s.unit,s.open,n.size,o].join(" ");a!==this.key&&(this.key=a,this.flow=ss(t,n,n.of[s.target],o)),this.slider.value=String(on(s.threshold)),this.shown.textContent=w(s.threshold),this.canvas.setAttribute("aria-label","The flow from the input tokens to the target. Arrow keys move between tokens and layers, Enter traces one."),this.draw(),I(this.table,()=>this.rows())}depth(){let{state:e,current:t}=this.context,s=typeof e.depth=="number"?e.depth:q(e.depth);return s===null?t.entry.layers.length:s+1}refusal(){let{current:e,targets:t}=this.context;return e.entry.reaches_input?`Each layer of ${e.entry.measure} already speaks of the input tokens: there is nothing to follow.`:!e.whole||!e.entry.joined?"A flow needs the maps of every layer for every token of one text. These hold some targets, some layers or two texts.":t.size>nn?"The text is too long to follow: choose words or segments above.":null}edges(){let{node:e,threshold:t}=this.context.state,s=this.flow;return(e&&e[0]<s.levels&&e[1]<this.context.targets.size?ns(s,e[0],e[1]):s.edges).filter(o=>o.value>=t).sort((o,a)=>o.value-a.value)}x(e){return V+(e+.5)*(this.width-V-12)/this.context.targets.size}y(e){return rs+(this.flow.levels-1-e)*this.step}draw(){if(this.canvas.hidden||!this.flow)return;this.width=this.element.clientWidth||900,this.step=this.flow.levels>14?34:56;let e=this.y(0)+os,t=P(this.canvas,this.width,e);this.painted(t,this.context)}painted(e,t){let{palette:s,state:n,targets:r,current:o}=t,a=this.flow,l=this.edges(),c=o.entry.layers;for(let M=0;M<a.levels;M++){let j=M===0?"input":`${M===a.levels-1?"layer ":""}${c[M-1]}`;e.text(V-12,this.y(M)+4,j,{size:12,fill:s.quiet,align:"right"}),e.rect(V,this.y(M),this.width-V-12,.5,s.line)}let d=k(y(s,.78)),u=new Map,p=n.node&&a.mass[n.node[0]]?.[n.node[1]]||1;for(let M of l){let j=M.value/p,G=Math.max(.8,15*j);e.curve(this.x(M.source),this.y(M.level),this.x(M.target),this.y(M.level+1),G,d,Math.min(.9,.22+1.6*j));for(let[z,B]of[[M.level,M.source],[M.level+1,M.target]])u.set(`${z} ${B}`,a.mass[z][B])}let m=a.levels-1,f=r.of[n.target];u.set(`${m} ${f}`,1);for(let[M,j]of u){let[G,z]=M.split(" ").map(Number),B=n.node?.[0]===G&&n.node[1]===z,ge=this.at?.[0]===G&&this.at[1]===z;e.circle(this.x(z),this.y(G),2.5+5.5*Math.sqrt(j),d,B||ge?s.ink:s.paper)}let g=e.width(r.label(f),14,700)/2,b=Math.max(g,Math.min(this.width-g-2,this.x(f)));e.text(b,this.y(m)-16,r.label(f),{size:14,weight:700,fill:s.ink,align:"center"}),this.inputs(e,t,u);let v=n.node?` through ${E(r.label(n.node[1]))} at ${Re(n.node[0],c)}`:"",C=E(r.label(f)),H=n.node?a.mass[n.node[0]]?.[n.node[1]]??0:0;this.words.textContent=v?`${w(H)} of ${C} passes${v}. Click it again to see everything.`:`How ${C} is put together, from the input below to ${m===c.length?"the last layer":`layer ${c[m-1]}`} above. Click a point to trace what passes it.`}inputs(e,t,s){let{palette:n,targets:r}=t,o=(this.width-V)/r.size,a=r.groups.map((c,d)=>d).sort((c,d)=>this.flow.mass[0][d]-this.flow.mass[0][c]),l=[];for(let c of a){let d=this.x(c),u=s.has(`0 ${c}`);if(o<15&&(!u||l.some(m=>Math.abs(m-d)<15)))continue;l.push(d);let p=A(e,r.label(c),12,84);e.text(d+4,this.y(0)+18,p,{size:12,rotate:-50,align:"right",fill:u?n.ink:n.quiet,weight:u?600:400})}}over(e){let t=this.flow,s=t.levels-1-Math.round((e.offsetY-rs)/this.step),n=Math.round((e.offsetX-V)*this.context.targets.size/(this.width-V-12)-.5),r=s>=0&&s<t.levels&&n>=0&&n<this.context.targets.size;this.at=r?[s,n]:null,this.canvas.style.cursor=r?"pointer":"",this.context.actions.tip(r?e:null,this.sentence()),this.draw()}sentence(){if(!this.at)return[];let[e,t]=this.at,{context:s}=this,n=s.targets.label(s.targets.of[s.state.target]),{layers:r}=s.current.entry;return[`${E(s.targets.label(t))} at ${Re(e,r)}`,`${w(this.flow.mass[e][t])} of ${n} passes here`]}trace(){if(!this.at)return;let{node:e}=this.context.state,t=e&&e[0]===this.at[0]&&e[1]===this.at[1];this.context.actions.set({node:t?null:[...this.at]})}leave(){this.at=null,this.context.actions.tip(null,[]),this.draw()}walk(e,t){let{context:s}=this,[n,r]=this.at??[this.flow.levels-1,s.targets.of[s.state.target]];this.at=[L(n-t,this.flow.levels),L(r+e,s.targets.size)],s.actions.announce(this.sentence().join(", ")),this.draw()}paint(e,t,s){if(!this.flow||this.canvas.hidden)return 0;this.width=s,this.painted(e,t);let n=this.y(0)+os;return this.draw(),n}rows(){let{context:e}=this,t=e.current.entry.layers;return[["from","source","to","target","share of the target"],...this.edges().reverse().map(s=>[Re(s.level,t),e.targets.label(s.source),Re(s.level+1,t),e.targets.label(s.target),s.value.toPrecision(3)])]}};function Re(i,e){return i===0?"the input":`layer ${e[i-1]}`}function rn(i){return Number((.001*500**(i/100)).toPrecision(2))}function on(i){return Math.round(Math.log(Math.max(i,.001)/.001)/Math.log(500)*100)}var je=255,is=new Map;function an(i){let e=is.get(i);if(!e){e=new Uint32Array(2*je+1);for(let t=0;t<e.length;t++){let[s,n,r]=y(i,(t-je)/je);e[t]=(255<<24|r<<16|n<<8|s)>>>0}is.set(i,e)}return e}function ae(i,e,t,s,n){let r=document.createElement("canvas");r.width=s,r.height=t;let o=r.getContext("2d"),a=o.createImageData(s,t),l=new Uint32Array(a.data.buffer),c=an(i);for(let d=0;d<e.length;d++){let u=Math.max(-1,Math.min(1,e[d]/n));l[d]=c[Math.round((u+1)*je)]}return o.putImageData(a,0,0),r}function me(i,e,t){let s=1e-12;for(let n=0;n<i.length;n++)t&&Math.floor(n/e)===n%e||(s=Math.max(s,Math.abs(i[n])));return s}var le=58,qe=24,J=6,ln=400,We=class{constructor(){this.words=h("p",{class:"quiet"});this.tile=64;this.pictures=[];this.key="";this.at=null;this.canvas=W({over:e=>this.over(e),leave:()=>this.pointAt(null,null),choose:()=>this.enter(),step:(e,t)=>this.walk(e,t)}),this.table=D("Heads",()=>this.rows()),this.whole=h("button",{type:"button",onclick:()=>this.context.actions.set({head:null})},"Back to whole layers"),this.element=h("div",{class:"heads-view"},h("div",{class:"bar-line"},this.words,this.whole),this.canvas,this.table)}update(e){this.context=e;let{current:t,measured:s}=e,n=a=>a.heads>0&&a.targets===t.targets&&a.sources===t.sources;this.shown=t.heads?t:s.find(n)??t;let r=this.shown.heads===0;if(this.canvas.hidden=this.table.hidden=r,this.whole.hidden=e.state.head===null,r){let a=t.entry.notes?.find(l=>l.includes("heads are left out"));this.words.textContent=a??`Single heads are not in this page. They are if it is also given lens.measure("${t.entry.measure}", text, per_head=True).`;return}let o=this.shown===t?"":`${e.name(t)} was measured by whole layers. These are the heads of ${e.name(this.shown)}. `;this.words.textContent=`${o}Layers down, heads across. In each, targets down and sources across, shaded by its own largest share. A click opens one.`,this.prepare(),this.canvas.setAttribute("aria-label",`${this.shown.entry.layers.length} layers by ${this.shown.heads} heads. Arrow keys move, Enter opens a head.`),this.draw(),I(this.table,()=>this.rows())}prepare(){let{context:e,shown:t}=this,{targets:s,sources:n,palette:r,state:o}=e,a=[e.measured.indexOf(t),r.dark,s.size,n.size,o.unit,o.hide].join(" ");if(a===this.key)return;this.key=a;let l=[...new Set(t.held.map(c=>s.of[c]))].sort((c,d)=>c-d).slice(0,ln);this.pictures=t.entry.layers.flatMap((c,d)=>Array.from({length:t.heads},(u,p)=>{let m=new Float32Array(l.length*n.size);l.forEach((g,b)=>m.set(t.incoming({depth:d,head:p},s,g,n),b*n.size));let f=me(m,n.size,t.square&&l.length===n.size);return ae(r,m,l.length,n.size,f)}))}size(e){let{heads:t,entry:s}=this.shown;return this.tile=Math.max(18,Math.min(132,(e-le)/t-J)),[le+t*(this.tile+J),qe+s.layers.length*(this.tile+J)]}draw(){if(this.canvas.hidden)return;let[e,t]=this.size(this.element.clientWidth||900);this.painted(P(this.canvas,e,t),this.context)}painted(e,t){let{palette:s,state:n}=t,{tile:r,shown:o}=this,a={size:12,fill:s.quiet};for(let l=0;l<o.heads;l++)e.text(le+l*(r+J)+r/2,qe-9,l===0?"head 0":String(l),{...a,align:"center"});o.entry.layers.forEach((l,c)=>{let d=qe+c*(r+J);e.text(le-10,d+r/2+4,c===0?`layer ${l}`:String(l),{...a,align:"right"});for(let u=0;u<o.heads;u++){let p=le+u*(r+J);e.image(this.pictures[c*o.heads+u],p,d,r,r);let f=o===t.current&&n.head===u&&n.depth===c,g=this.at?.[0]===c&&this.at[1]===u;e.rect(p,d,r,r,null,f||g?s.ink:s.line,f?3:g?2:1)}})}over(e){let t=Math.floor((e.offsetX-le)/(this.tile+J)),s=Math.floor((e.offsetY-qe)/(this.tile+J)),{heads:n,entry:r}=this.shown,o=t>=0&&s>=0&&t<n&&s<r.layers.length;this.pointAt(o?[s,t]:null,e)}pointAt(e,t){this.at=e,this.canvas.style.cursor=e?"pointer":"",this.context.actions.tip(e?t:null,this.sentence()),this.draw()}sentence(){if(!this.at)return[];let[e,t]=this.at,{context:s}=this,n=s.incoming(this.shown,{depth:e,head:t}),r=$(n,s.own).slice(0,3),o=s.targets.label(s.targetGroup);return[`Layer ${this.shown.entry.layers[e]}, head ${t}`,...r.map(({group:a,value:l})=>`${E(s.sources.label(a))}: ${w(l)} of ${E(o)}`)]}enter(){if(!this.at)return;let e=this.context.measured.indexOf(this.shown);this.context.actions.set({map:e,depth:this.at[0],head:this.at[1],view:"map"})}walk(e,t){let[s,n]=this.at??[0,-1],{entry:r,heads:o}=this.shown;this.at=[L(s+t,r.layers.length),L(n+e,o)],this.context.actions.announce(this.sentence().join(", ")),this.draw()}paint(e,t,s){if(!this.shown.heads)return 0;this.prepare();let[,n]=this.size(s);return this.painted(e,t),n}rows(){let{context:e,shown:t}=this,s=e.targets.label(e.targetGroup),n=[["layer","head","target","largest source","share"]];return t.entry.layers.forEach((r,o)=>{for(let a=0;a<t.heads;a++){let l=e.incoming(t,{depth:o,head:a}),c=$(l,e.own)[0];n.push([String(r),String(a),s,c?e.sources.label(c.group):"",S(l,e.own).toPrecision(3)])}}),n}};function De(i,e,t){let s=h("span",{class:"ramp"}),n=t?-5:0,r=Array.from({length:6-n},(o,a)=>k(y(i,(a+n)/5)));return s.style.backgroundImage=`linear-gradient(to right, ${r.join(", ")})`,[h("span",{},t?w(-e):"0 %"),s,h("span",{},w(e))]}var hn=2500,x=108,bt=10,Ie=class{constructor(){this.spacer=h("div",{class:"spacer"});this.words=h("p",{class:"quiet"});this.legend=h("p",{class:"legend"});this.values=new Float32Array;this.picture=null;this.key="";this.cell=16;this.zoom=1;this.at=null;this.canvas=W({over:t=>this.over(t),leave:()=>this.moved(null,null),choose:()=>this.choose(),step:(t,s)=>this.walk(t,s)}),this.scroller=h("div",{class:"scroller",onscroll:()=>this.draw()},this.canvas,this.spacer),this.table=D("Map",()=>this.rows());let e=h("label",{class:"field"},h("span",{},"Zoom"),h("input",{type:"range",min:"1",max:"12",step:"0.5",value:"1",oninput:t=>{this.zoom=Number(t.target.value),this.layout()}}));this.element=h("div",{class:"map-view"},h("div",{class:"bar-line"},this.words,e),this.legend,this.scroller,this.table)}update(e){this.context=e;let{targets:t,sources:s,current:n,state:r}=e,o=this.held();if(Math.max(o.length,s.size)>hn){this.words.textContent=`${o.length} × ${s.size} cells are too many to see: choose words or segments above.`,this.scroller.hidden=this.legend.hidden=!0;return}this.scroller.hidden=this.legend.hidden=!1;let a=[r.map,r.depth,r.head,e.palette.dark,t.size,s.size,r.unit,r.open,r.hide].join(" ");if(a!==this.key){this.key=a;let l=new Float32Array(o.length*s.size);o.forEach((d,u)=>l.set(n.incoming(e.choice,t,d,s),u*s.size)),this.values=l;let c=me(l,s.size,n.square&&o.length===s.size);this.picture=ae(e.palette,l,o.length,s.size,c),this.words.textContent="Targets down, sources across. Click a row to choose its target.",this.legend.replaceChildren(...De(e.palette,c,n.entry.signed),h("span",{class:"quiet"},cn(n.square)))}this.canvas.setAttribute("aria-label",`Map of ${o.length} targets by ${s.size} sources. Arrow keys move, Enter chooses the target.`),this.layout(),I(this.table,()=>this.rows())}held(){let{targets:e,current:t}=this.context;return[...new Set(t.held.map(n=>e.of[n]))].sort((n,r)=>n-r)}layout(){if(this.scroller.hidden)return;let{sources:e}=this.context,t=this.held().length,s=Math.max(200,this.scroller.clientWidth||900)-x-16,n=Math.max(240,window.innerHeight*.7)-x,r=Math.min(44,s/e.size,Math.max(n/t,7));this.cell=Math.max(r,1)*this.zoom;let[o,a]=[e.size*this.cell+x+bt,t*this.cell+x+bt],l=Math.max(320,window.innerHeight*.78);this.scroller.style.height=`${Math.min(a+18,l)}px`,this.spacer.style.width=`${o}px`,this.spacer.style.height=`${a}px`,this.draw()}draw(){let e=this.scroller.clientWidth,t=this.scroller.clientHeight;if(!e||!this.picture)return;let s=P(this.canvas,e,t);this.painted(s,this.context,this.cell,this.scroller.scrollLeft,this.scroller.scrollTop,e,t)}painted(e,t,s,n,r,o,a){let{palette:l,sources:c,targets:d}=t,u=this.held();e.image(this.picture,x-n,x-r,c.size*s,u.length*s);let p=u.indexOf(t.targets.of[t.state.target]);if(p>=0&&e.rect(x-n,x-r+p*s,c.size*s,Math.max(s,2),null,l.ink,1.5),this.at){let[f,g]=this.at;e.rect(x-n+g*s,x-r+f*s,Math.max(s,2),Math.max(s,2),null,l.ink,2)}e.rect(0,0,x-2,a,l.paper),e.rect(0,0,o,x-2,l.paper);let m=Math.max(1,Math.ceil(12/s));this.names(e,d,u,m,s,(f,g,b)=>{let v=x-r+(f+.5)*s;v>x-4&&v<a&&e.text(x-8,v+4,A(e,g,12,x-14),{size:12,align:"right",fill:b?l.ink:l.quiet,weight:b?700:400})},this.at?.[0]??-1,p),this.names(e,c,c.groups.map((f,g)=>g),m,s,(f,g,b)=>{let v=x-n+(f+.5)*s;v>x-4&&v<o&&e.text(v+4,x-8,A(e,g,12,x+6),{size:12,rotate:-60,fill:b?l.ink:l.quiet,weight:b?700:400})},this.at?.[1]??-1,-1),e.rect(0,0,x-14,x-30,l.paper)}names(e,t,s,n,r,o,a,l){s.forEach((c,d)=>{let u=a>=0&&Math.abs(d-a)*r<12&&d!==a;(d===a||d===l||d%n===0&&!u)&&o(d,t.label(c),d===a||d===l)})}over(e){let t=Math.floor((e.offsetX-x+this.scroller.scrollLeft)/this.cell),s=Math.floor((e.offsetY-x+this.scroller.scrollTop)/this.cell),n=e.offsetX>=x&&e.offsetY>=x&&s<this.held().length&&t<this.context.sources.size;this.moved(n?[s,t]:null,e)}moved(e,t){this.at=e;let s=this.sentence();this.context.actions.tip(e?t:null,s),this.canvas.style.cursor=e?"pointer":"",this.draw()}sentence(){if(!this.at)return[];let{context:e}=this,[t,s]=this.at,n=this.held()[t],r=this.values[t*e.sources.size+s],o=e.current.total(e.choice,e.targets.groups[n].start),a=[`${E(e.sources.label(s))} → ${E(e.targets.label(n))}`,w(r)];return o!==null&&e.state.unit==="tokens"&&a.push(`score ${(r*o).toPrecision(3)}`),a}choose(){if(!this.at)return;let{start:e,stop:t}=this.context.targets.groups[this.held()[this.at[0]]];for(let s=e;s<t;s++)if(this.context.current.holds(s))return this.context.actions.set({target:s,node:null})}walk(e,t){let[s,n]=this.at??[0,-1];this.at=[L(s+t,this.held().length),L(n+e,this.context.sources.size)],this.context.actions.announce(this.sentence().join(", ")),this.draw()}paint(e,t,s){let{sources:n}=t,r=this.held().length,o=Math.min(28,Math.max(1,(s-x)/n.size)),a=this.at;this.at=null;let l=r*o+x;if(n.size*r<=4e3){this.painted(e,t,o,0,0,s,l+2),this.cells(e,t,o,r);let c=this.held().indexOf(t.targets.of[t.state.target]),[d,u]=[x+c*o,n.size*o];c>=0&&e.rect(x,d,u,o,null,t.palette.ink,1.5)}else this.painted(e,t,o,0,0,s,l+2);return this.at=a,l+bt}cells(e,t,s,n){let r=t.sources.size,o=me(this.values,r,t.current.square&&n===r);for(let a=0;a<this.values.length;a++){let l=Math.max(-1,Math.min(1,this.values[a]/o));e.rect(x+a%r*s,x+Math.floor(a/r)*s,s-.5,s-.5,k(y(t.palette,l)))}}rows(){let{context:e}=this,t=e.sources.size;return[["target",...e.sources.groups.map((s,n)=>e.sources.label(n))],...this.held().map((s,n)=>[e.targets.label(s),...Array.from(this.values.subarray(n*t,(n+1)*t),r=>r.toPrecision(3))])]}},cn=i=>`share of the target${i?" · the largest off the diagonal has the strongest colour":""}`;function as(i,e){let t=Object.entries(i.evaluations),[s,...n]=i.verdict.split(`
`),r=h("tr",{},h("th",{scope:"col"},"measure"),h("th",{scope:"col"},"mean rank"),...t.map(([a,{direction:l}])=>h("th",{scope:"col"},a.replaceAll("_"," "),h("small",{},l==="neither"?"":`${l} is better`)))),o=i.measures.map(({measure:a,mean_rank:l})=>h("tr",{class:a==="random"?"baseline":null},h("th",{scope:"row"},a),h("td",{},_e(l)),...t.map(([,{measures:c}])=>dn(c[a],Object.values(c),e,a==="random"))));return h("div",{class:"ranking-view"},h("h1",{class:"answer"},s??""),...n.map(a=>h("p",{},a)),h("p",{class:"quiet hint"},`${i.texts} texts. Dots lie between the lowest and the highest value of the column, with their 95 % interval. Bold is best, grey italics are not better than random numbers.`),h("div",{class:"wide",tabindex:"0",role:"region","aria-label":"Ranked measures"},h("table",{class:"ranks"},h("thead",{},r),h("tbody",{},...o))),h("h2",{},"What was asked"),h("dl",{},...t.flatMap(([a,{summary:l}])=>[h("dt",{},a.replaceAll("_"," ")),h("dd",{},l)])))}function _e(i){return i==null?"–":i.toFixed(2).replace("-","−")}function dn(i,e,t,s){if(!i||i.value===null)return h("td",{},"–");let n=e.flatMap(m=>[m.low,m.high,m.value]).filter(m=>m!==null),[r,o]=[Math.min(...n),Math.max(...n)],a=m=>o>r?(m-r)/(o-r)*100:50,l=h("span",{class:"interval"});l.style.left=`${a(i.low??i.value)}%`,l.style.width=`${a(i.high??i.value)-a(i.low??i.value)}%`;let c=h("span",{class:"dot"});c.style.left=`${a(i.value)}%`;let d=s||i.not_better_than_random;c.style.backgroundColor=d?t.quiet:k(y(t,.75));let u=i.is_best?"best":i.not_better_than_random?"luck":null,p=i.low===null?"":`${_e(i.low)} to ${_e(i.high)}`;return h("td",{class:u,title:p},_e(i.value),h("span",{class:"scale","aria-hidden":"true"},l,c))}var ls=3;function hs(i){return[pn(i),mn(i)].filter(e=>e!==null)}function un(i){let{current:e,state:t}=i,{targets:s}=i,n=i.fine(e.sources),r=s.of[t.target],o=e.square?n.of[t.target]:-1,a=new Map;return e.entry.layers.forEach((l,c)=>{let d=e.incoming({depth:c,head:t.head},s,r,n);for(let u of $(d,o).slice(0,ls))Math.abs(u.value)>Math.abs(a.get(u.group)?.value??0)&&a.set(u.group,{label:n.label(u.group),layer:l,value:u.value})}),[...a.values()].sort((l,c)=>Math.abs(c.value)-Math.abs(l.value)).slice(0,ls)}function pn(i){let{entry:e}=i.current,t=e.layers.length>1?un(i):[];if(!t.length)return null;let s=t.map(({label:n,layer:r,value:o})=>[h("b",{},T(n)),` (${w(o)} ${e.reaches_input?"up to":"in"} layer ${r})`]);return h("p",{},"Layer by layer, most came from ",...ye(s),".")}function mn(i){let e=Pe(i),t=He(i,e),s=e.find(p=>p.measured===i.current);if(!t||!s)return null;let n=Q(i,s,t),r=e.length-1,o=h("b",{},i.name(t.measured)),a=` (rank correlation ${n.toFixed(2).replace("-","−")})`,l=r===1?[o,` ${ze(n).replace("agree","agrees")}${a}`]:[`Of ${r} other measures `,o,` agrees least${a}`],c=oe([s.values,t.values],i.own)[0];c&&l.push(...fn(i,c.group,s.values,t.values));let d=i.measured.indexOf(t.measured),u=()=>i.actions.set({view:"compare",other:d});return h("p",{},...l,". ",h("button",{type:"button",class:"link",onclick:u},"Compare"))}function fn(i,e,t,s){let n=h("b",{},T(i.sources.label(e))),r=` ${w(s[e])} instead of ${w(t[e])}`;return["; it differs most on ",n,`:${r}`]}var F=64,gn=7,Ge=i=>i.depth==="all"||i.depth==="mean",Be=class{constructor(){this.name=h("h2",{});this.other=h("button",{type:"button",class:"turn",onclick:()=>this.turn()});this.strips=[];this.rowHeight=18;this.cell=1;this.canvas=h("canvas",{tabindex:"0",role:"img",onmousemove:e=>this.over(e),onmouseleave:()=>this.context.actions.tip(null,[]),onclick:e=>this.choose(this.hit(e)?.strip??-1),onkeydown:e=>this.key(e)}),this.table=D("Layers",()=>this.rows()),this.element=h("section",{class:"layers","aria-label":"Layer by layer"},h("div",{class:"layers-head"},this.name,this.other),this.canvas,this.table)}update(e){this.context=e;let{current:t}=e;if(this.element.hidden=t.entry.layers.length<2,this.element.hidden)return;let s=this.joined(),n=s?[...t.upTo]:t.entry.layers.map((c,d)=>d);n.push(...this.summaries(s)),this.strips=n.map(c=>({depth:c,name:c==="all"||c==="mean"?this.summaryName(c):String(t.entry.layers[q(c)??Number(c)]),values:e.incoming(t,{depth:c,head:typeof c=="number"?e.state.head:null})}));let r=this.element.clientWidth||640,o=this.height(r);this.draw(P(this.canvas,r,o),r);let a=e.targets.label(e.targetGroup),l=s?" has taken up to each layer":" took in each layer";this.name.replaceChildren("What ",h("b",{},T(a)),l),this.other.hidden=t.upTo.length===0,this.other.textContent=s?"Each layer by itself":"Up to each layer",this.canvas.setAttribute("aria-label",`What ${E(a)}${l}, as a heat map: ${this.strips.length} rows, ${e.sources.size} columns. Arrow keys up and down choose a layer.`),I(this.table,()=>this.rows())}summaryName(e){let t=this.context.current.entry.joined?.how.replace(/\(.*/,"")??"";return e==="mean"?"mean":t||"all"}summaries(e){let{current:t,state:s}=this.context,n=["mean","all"].filter(o=>t.depths.includes(o)),r=e?"all":n[0];return n.filter(o=>o===r||o===s.depth)}joined(){let{state:e,current:t}=this.context;return typeof e.depth=="number"||!t.upTo.length?!1:e.rows==="upto"||q(e.depth)!==null}turn(){let{state:e,actions:t}=this.context,s=this.joined(),{depth:n}=e,r=typeof n=="number"?n:q(n),o=this.context.current.entry.layers.length-1,a=r===null||r===o?"all":`to${r}`;t.set({rows:s?"each":"upto",head:null,depth:s?r??this.context.current.defaultDepth:a})}height(e){let t=this.strips.length;return this.rowHeight=t>40?7:t>16?11:18,this.cell=(e-F)/this.context.sources.size,this.top(t)+this.labels(e)}top(e){let t=this.strips.findIndex(Ge);return e*this.rowHeight+(t>=0&&e>=t?gn:0)}labels(e){return this.cell<13?this.context.current.sources.seconds?18:4:this.slanted(e)?74:20}slanted(e){let t=new Z(this.canvas.getContext("2d")),s=(e-F)/this.context.sources.size;return this.context.sources.groups.some((n,r)=>t.width(this.context.sources.label(r),12)>s-4)}draw(e,t,s=0){let{context:n,strips:r,rowHeight:o}=this,{palette:a,own:l,state:c}=n,d=r.filter(p=>!Ge(p)),u=Math.max(1e-12,...d.map(p=>S(p.values,l)));r.forEach((p,m)=>{let f=s+this.top(m),g=p.depth===c.depth,b=Ge(p)?Math.max(1e-12,S(p.values,l)):u,v=o>=13?1:o>=10?2:4;(m%v===0||g||Ge(p))&&e.text(F-10,f+o/2+4,`${m===0?this.joined()?"up to ":"layer ":""}${p.name}`,{size:12,fill:g?a.ink:a.quiet,weight:g?700:400,align:"right"}),this.cells(e,p.values,l,b,f),g&&e.rect(F-1,f-1,t-F+1,o+.5,null,a.ink,1.5,3)}),this.drawColumns(e,t,s)}cells(e,t,s,n,r){let{context:o,cell:a,rowHeight:l}=this,c=m=>Math.max(-1,Math.min(1,m/n));if(a>=6){t.forEach((m,f)=>{let g=k(y(o.palette,c(m)));e.rect(F+f*a,r,a-1,l-1.5,g)});return}let d=Math.max(1,Math.round(1.5/a)),u=new Float32Array(Math.ceil(t.length/d));t.forEach((m,f)=>{let g=Math.floor(f/d);f!==s&&Math.abs(m)>Math.abs(u[g])&&(u[g]=m)});let p=ae(o.palette,u,1,u.length,n);e.image(p,F,r,a*d*u.length,l-1.5)}drawColumns(e,t,s){let{context:n,cell:r}=this,{palette:o,own:a,sources:l}=n,c=s+this.top(this.strips.length)-1,d=n.current.sources.seconds;if(d){let p=wt(d*l.size);for(let m=0;m<=d*l.size;m+=p)e.text(F+m/d*r,c+14,`${Number(m.toFixed(2))} s`,{size:11,fill:o.quiet,align:m+p>d*l.size?"right":m?"center":"left"});return}if(a>=0&&r>=3&&e.rect(F+a*r-.5,s-.5,r,c-s+.5,null,o.ink,1.5,2),r<13)return;let u=this.slanted(t);l.groups.forEach((p,m)=>{let f=F+(m+.5)*r,g={size:12,fill:m===a?o.ink:o.quiet,weight:m===a?700:400},b=A(e,l.label(m),12,u?88:r);u?e.text(f+4,c+12,b,{...g,align:"right",rotate:-45}):e.text(f,c+15,b,{...g,align:"center"})})}hit(e){let t=this.strips.findIndex((n,r)=>e.offsetY>=this.top(r)&&e.offsetY<this.top(r)+this.rowHeight),s=Math.floor((e.offsetX-F)/this.cell);return t<0?null:{strip:t,group:s>=0&&s<this.context.sources.size?s:-1}}over(e){let t=this.hit(e);if(this.canvas.style.cursor=t?"pointer":"",!t||t.group<0)return this.context.actions.tip(null,[]);let{strip:s,group:n}=t,{context:r}=this,o=this.strips[s].values[n],a=r.targets.label(r.targetGroup);r.actions.tip(e,[`${E(r.sources.label(n))}: ${w(o)} of ${E(a)}`,r.current.depthName(this.strips[s].depth)])}choose(e){let t=this.strips[e]?.depth;t!==void 0&&this.context.actions.set({depth:t,head:typeof t=="number"?this.context.state.head:null})}key(e){let t={ArrowUp:-1,ArrowDown:1}[e.key];if(!t)return;e.preventDefault();let s=this.strips.findIndex(r=>r.depth===this.context.state.depth),n=Math.max(0,Math.min(this.strips.length-1,s+t));this.choose(n),this.context.actions.announce(this.context.current.depthName(this.strips[n].depth))}paint(e,t,s,n){if(this.element.hidden)return 0;let r=this.height(n);return this.draw(e,n,s),r}rows(){let{sources:e}=this.context;return[["source",...this.strips.map(t=>this.context.current.depthName(t.depth))],...e.groups.map((t,s)=>[e.label(s),...this.strips.map(n=>n.values[s].toPrecision(3))])]}};function wt(i){let e=i/6,t=10**Math.floor(Math.log10(e));return([1,2,5,10].find(s=>s*t>=e)??10)*t}var cs=420,Ue=class{constructor(){this.picture=new Image;this.grey=null;this.context=null;this.values=[];this.scale=0;this.at=null;this.canvas=W({over:e=>this.pointAt(this.patch(e),e),leave:()=>this.pointAt(null,null),choose:()=>this.choose(),step:(e,t)=>this.walk(e,t)}),this.canvas.setAttribute("aria-label","The picture, its patches shaded by their share; the ranked list has the numbers. Arrow keys move, Enter chooses a patch."),this.element=h("figure",{class:"picture"},this.canvas),this.picture.addEventListener("load",()=>{this.grey=bn(this.picture),this.draw()})}show(e,t,s){let{image:n}=e.payload;n&&(Object.assign(this,{context:e,values:t,scale:s}),this.picture.src!==n.src&&(this.picture.src=n.src),this.draw())}size(e){let t=(this.picture.naturalHeight||1)/(this.picture.naturalWidth||1),s=Math.min(e,cs,cs/t);return[s,s*t]}draw(){if(!this.context||!this.picture.naturalWidth)return;let[e,t]=this.size(this.element.clientWidth||420);this.painted(P(this.canvas,e,t),this.context,0,0,e,t)}painted(e,t,s,n,r,o){let{rows:a,columns:l,first:c}=t.payload.image,{sources:d,own:u}=t;e.image(this.grey??this.picture,s,n,r,o,!0);let[p,m]=[r/l,o/a];for(let f=0;f<a*l;f++){let g=d.of[c+f];if(g===void 0)break;let b=this.scale>0?this.values[g]/this.scale:0,[v,C]=[s+f%l*p,n+Math.floor(f/l)*m],H=Math.min(.85,Math.abs(b)*.85),M=k(y(he,b<0?-.75:.75)).replace(")",`, ${H})`);e.rect(v,C,p,m,M),g===u?e.rect(v+1,C+1,p-2,m-2,null,"#ffffff",3):c+f===this.at&&e.rect(v,C,p,m,null,"#ffffff",1.5)}}patch(e){let{context:t}=this;if(!t)return null;let{rows:s,columns:n,first:r}=t.payload.image,o=Math.floor(e.offsetX/this.canvas.clientWidth*n),a=Math.floor(e.offsetY/this.canvas.clientHeight*s);return r+a*n+o}pointAt(e,t){this.at=e,this.context?.actions.tip(t,this.words()),this.draw()}words(){let{context:e,at:t}=this;if(!e||t===null)return[];let{columns:s,first:n}=e.payload.image,r=e.sources.of[t]??0;return[`Patch in ${`row ${Math.floor((t-n)/s)}, column ${(t-n)%s}`}`,`${w(this.values[r]??0)} of the target`]}choose(){let{context:e,at:t}=this;e&&t!==null&&e.current.square&&e.current.holds(t)&&e.actions.set({target:t,node:null})}walk(e,t){let{context:s}=this;if(!s)return;let{rows:n,columns:r,first:o}=s.payload.image,a=this.at===null?0:this.at-o,l=L(a%r+(this.at===null?0:e),r),c=L(Math.floor(a/r)+(this.at===null?0:t),n);this.pointAt(o+c*r+l,null),s.actions.announce(this.words().join(", "))}paint(e,t,s,n,r,o,a){Object.assign(this,{values:o,scale:a});let[l,c]=this.size(r);return this.painted(e,t,s,n,l,c),c}};function bn(i){let e=document.createElement("canvas");e.width=i.naturalWidth,e.height=i.naturalHeight;let t=e.getContext("2d");t.drawImage(i,0,0);let s=t.getImageData(0,0,e.width,e.height);for(let n=0;n<s.data.length;n+=4){let[r,o,a]=s.data.subarray(n,n+3);s.data.fill(.3*r+.59*o+.11*a,n,n+3)}return t.putImageData(s,0,0),e}var K=120,ds=22,Ve=class{constructor(){this.context=null;this.values=[];this.scale=0;this.at=null;this.canvas=W({over:e=>this.over(e),leave:()=>this.pointAt(null,null),choose:()=>this.choose(),step:e=>this.walk(e)}),this.canvas.setAttribute("aria-label","The share of each frame over time; the ranked list has the numbers. Arrow keys move, Enter chooses a frame."),this.element=h("figure",{class:"strip"},this.canvas)}show(e,t,s){e.current.sources.seconds&&(Object.assign(this,{context:e,values:t,scale:s}),this.draw())}draw(){if(!this.context)return;let e=this.element.clientWidth||640;this.painted(P(this.canvas,e,K+ds),this.context,0,0,e)}painted(e,t,s,n,r){let{palette:o}=t,a=t.current.sources.seconds,l=r/this.values.length;for(let u=0;u<this.values.length;u++){let p=this.scale>0?this.values[u]/this.scale:0,m=Math.max(1,Math.abs(p)*K),f=k(y(o,.25*Math.sign(p||1)+.75*p)),g=Math.max(l-(l>4?1:0),.7);u===t.own?e.rect(s+u*l-1,n,g+2,K,null,o.ink):u===this.at&&e.rect(s+u*l,n,g,K,o.band),u!==t.own&&e.rect(s+u*l,n+K-m,g,m,f)}e.rect(s,n+K,r,1,o.quiet);let c=a*this.values.length,d=wt(c);for(let u=0;u<=c+1e-9;u+=d)e.text(s+u/c*r,n+K+16,`${Number(u.toFixed(2))} s`,{size:12,fill:o.quiet,align:u===0?"left":u+d>c?"right":"center"})}over(e){let t=Math.floor(e.offsetX/this.canvas.clientWidth*this.values.length);this.pointAt(L(t,this.values.length),e)}pointAt(e,t){this.at=e,this.context?.actions.tip(t,this.words()),this.draw()}words(){let{context:e,at:t}=this;return!e||t===null?[]:[e.sources.label(t),`${w(this.values[t])} of the target`]}choose(){let{context:e,at:t}=this;if(!e||t===null||!e.current.square)return;let{start:s}=e.sources.groups[t];e.current.holds(s)&&e.actions.set({target:s,node:null})}walk(e){this.pointAt(L(this.at===null?0:this.at+e,this.values.length),null),this.context?.actions.announce(this.words().join(", "))}paint(e,t,s,n,r,o,a){return Object.assign(this,{values:o,scale:a}),this.painted(e,t,s,n,r),K+ds}};var Je=12,wn=6,Ke=class{constructor(){this.answer=h("h1",{class:"answer"});this.facts=h("div",{class:"facts"});this.legend=h("p",{class:"legend"});this.picture=new Ue;this.strip=new Ve;this.sourceName=h("h2",{},"Source");this.targetName=h("h2",{},"Target");this.layers=new Be;this.inList=h("table",{class:"ranked"});this.outList=h("table",{class:"ranked"});this.outName=h("h2",{});this.inName=h("h2",{});this.rest=h("p",{class:"quiet"});this.pointedSource=null;this.sourceText=new ee("The text: choose a target",{choose:e=>this.choose(e,!0),point:(e,t)=>this.point(e,t,!0),close:e=>this.close(e)}),this.targetText=new ee("The target side: choose a target",{choose:e=>this.choose(e,!1),point:(e,t)=>this.point(e,t,!1),close:e=>this.close(e)},!0),this.element=h("div",{class:"text-view"},this.answer,this.facts,h("div",{class:"columns"},h("div",{class:"main"},this.targetName,this.targetText.element,this.sourceName,this.picture.element,this.strip.element,this.sourceText.element,this.legend,this.layers.element),h("aside",{class:"side","aria-label":"Ranked sources"},this.inName,this.inList,this.rest,this.outName,this.outList)))}choose(e,t){let{context:s}=this,n=t?s.sources:s.targets,{start:r,stop:o,segment:a}=n.groups[e];if(a!==null){s.actions.set({open:[...s.state.open,a]});return}if(!(t&&!s.current.square)){for(let l=r;l<o;l++)if(s.current.holds(l)){s.actions.set({target:l,node:null}),s.actions.announce(this.sentence());return}}}find(e){let{segment:t,start:s}=this.context.sources.groups[e];t!==null&&this.choose(e,!0),this.sourceText.find(this.context.sources.of[s])}close(e){let t=this.context.state.open.filter(s=>s!==e);this.context.actions.set({open:t})}point(e,t,s){let{context:n}=this,r=!n.current.square,o=this.pointedSource;if(this.pointedSource=r&&s?e:null,this.pointedSource!==o&&this.shaded(),e===null){n.actions.tip(null,[]),n.actions.point(null);return}let a=s?n.sources:n.targets,{start:l,stop:c}=a.groups[e],d=!s||n.current.square,u=-1;for(let m=l;m<c&&u<0;m++)d&&n.current.holds(m)&&(u=m);let p=this.words(e,s);t?n.actions.tip(t,p):(s?this.sourceText:this.targetText).describe(e,p.join(". ")),n.actions.point(u<0?null:u)}words(e,t){let{context:s}=this,n=s.preview;s.preview=null;let r=(t?s.sources:s.targets).label(e),o=s.targets.label(s.targetGroup),a=[r];if(t){let l=s.incoming(),c=$(l,s.own).findIndex(d=>d.group===e);e===s.own?a.push(s.ownShare?`the target; ${w(l[e])} of it is its own`:"the target"):l[e]?a.push(`${w(l[e])} of ${o}${c>=0?`, number ${c+1}`:""}`):a.push(`nothing of it is in ${o}`)}return s.preview=n,a}update(e){this.context=e;let{current:t,sources:s,targets:n,payload:r}=e,o=!t.square;this.picture.element.hidden=!r.image;let a=!!t.sources.seconds;this.strip.element.hidden=!a,this.targetName.hidden=!o,this.sourceName.hidden=!o||!!t.sources.segments?.[0]?.[2],this.targetText.element.hidden=!o,this.sourceText.show(s,e),this.sourceText.element.hidden=a||this.sourceText.isEmpty,o&&this.targetText.show(n,e),this.shaded(),this.layers.update(e)}pointed(e){this.context=e,this.shaded(),this.layers.update(e)}shaded(){let{context:e}=this,{own:t,sources:s,targets:n,targetGroup:r,current:o}=e,a=e.incoming(),l=S(a,t),c=e.preview===null;this.sourceText.shadeBy(e,a,l,t,c),o.square||this.shadeTargets(r,c),this.picture.show(e,a,l),this.strip.show(e,a,l);let d=$(a,t);c&&(this.answer.replaceChildren(this.headline()),this.facts.replaceChildren(...hs(e))),this.inList.classList.toggle("long",e.state.unit==="segments"||!!e.payload.image||!!s.text.segments?.some(([,,b])=>b!==void 0)),this.fillLegend(l);let u=n.label(r);this.inName.replaceChildren("Where ",h("b",{},T(u))," comes from");let p=t>=0&&a[t]?[{group:t,value:a[t]}]:[];us(this.inList,e,{order:d.slice(0,Je),itself:p,scale:l,label:b=>s.placed(b),find:b=>this.find(b)});let m=Array.from(a).reduce((b,v)=>b+Math.abs(v),0),f=d.slice(Je).reduce((b,v)=>b+Math.abs(v.value),0),g=[];d.length>Je&&g.push(`${d.length-Je} more sources: ${w(f)}`),!o.complete&&m<.9995&&g.push(`small shares left out of this page: ${w(1-m)}`),this.rest.textContent=g.join(" · "),this.goesTo(u)}shadeTargets(e,t){let{context:s,pointedSource:n}=this,{current:r,targets:o,sources:a}=s,l=n===null?new Float64Array(o.size):r.outgoing(s.choice,o,a,n),c=n===null?e:-1;this.targetText.shadeBy(s,l,S(l,-1),c,t)}goesTo(e){let{context:t}=this,{current:s,targets:n,targetGroup:r}=t,o=s.square&&s.held.length>1;if(this.outName.hidden=this.outList.hidden=!o,!o)return;let a=t.outgoing();this.outName.replaceChildren("Where ",h("b",{},T(e))," goes");let l=$(a,r).slice(0,wn);this.outName.hidden=this.outList.hidden=l.length===0,us(this.outList,t,{order:l,itself:[],scale:S(a,r),label:c=>n.label(c),find:c=>this.find(c)})}fillLegend(e){let{palette:t,current:s,payload:n}=this.context,r=n.image?"patch":s.sources.seconds?"frame":"word",o=r==="word"?"point at a word to follow it, click to keep it":s.square?`click a ${r} to follow it`:"point for numbers";this.legend.replaceChildren(h("span",{class:"outlined"},"target"),...De(t,e,s.entry.signed),h("span",{class:"quiet"},`share of the target · ${o}`))}most(){let{context:e}=this,{current:t}=e,{targets:s}=e,n=e.fine(t.sources),r=s.of[e.state.target],o=t.incoming(e.choice,s,r,n),a=t.square?n.of[e.state.target]:-1,l=$(o,a).slice(0,3);return{target:s.label(r),top:l.map(c=>[n.placed(c.group),c.value]),own:a<0||!e.ownShare?0:o[a]}}headline(){let{target:e,top:t,own:s}=this.most(),n=t.map(([r,o])=>[h("b",{},T(r)),` ${w(o)}`]);return h("span",{},h("b",{class:"outlined"},T(e)),t.length?` ${this.verb} `:" took nothing from other tokens",...ye(n),s?h("span",{class:"quiet"},` · ${w(s)} is its own`):null,...this.remarks().map(r=>h("span",{class:"quiet"},` · ${r}`)))}get verb(){return this.context.current.entry.explains_output?"depends most on":"took most from"}sentence(){let{target:e,top:t}=this.most(),s=this.remarks(),n=s.length?` (${s.join(", ")})`:"";return`${E(e)} ${this.verb} ${Oe(t)}${n}`}remarks(){let{context:e}=this,t=e.current.depths.length>1?[this.reading()]:[],s=e.preview;e.preview=null;let n=e.hiddenShare;return e.preview=s,n>0&&t.push(`${w(n)} is left out`),t}reading(){let{current:e,state:t}=this.context,s=e.depthName(t.depth),n=t.head===null?"":`, head ${t.head}`;return s[0].toLowerCase()+s.slice(1)+n}paint(e,t,s){let{palette:n,own:r,current:o}=t,a=t.incoming(),l=S(a,r);e.text(0,22,A(e,this.sentence(),17,s),{size:17,fill:n.ink,weight:600});let c=40;return o.square||(c+=this.targetText.paint(e,t,0,c,s,new Float64Array(t.targets.size),1,t.targetGroup)+12),t.payload.image&&(c+=this.picture.paint(e,t,0,c,s,a,l)+12),o.sources.seconds?c+=this.strip.paint(e,t,0,c,s,a,l)+12:this.sourceText.isEmpty||(c+=this.sourceText.paint(e,t,0,c,s,a,l,r)+12),c+this.layers.paint(e,0,c,s)+8}rows(e){let t=e.incoming(),s=e.targets.label(e.targetGroup);return[["target","source","position","share","rank"],...$(t,-1).map(({group:n,value:r},o)=>[s,e.sources.label(n),String(e.sources.groups[n].start),r.toPrecision(4),String(o+1)])]}};function us(i,e,t){let{order:s,itself:n,scale:r,label:o,find:a}=t,l=(m,f,g)=>h("tr",{class:g?"own":null},h("th",{scope:"row",dir:"auto"},f),h("td",{class:"bars"},gt(e,m,r,g?e.palette.quiet:void 0)),h("td",{},w(m))),[c,d]=["token","share"].map(m=>h("th",{scope:"col"},m)),u=m=>h("button",{type:"button",class:"source",title:`Find ${o(m)} in the text`,onclick:()=>a(m)},o(m)),p=s.map(m=>l(m.value,u(m.group),!1));p.push(...n.map(m=>l(m.value,"itself",!0))),i.replaceChildren(h("colgroup",{},h("col"),h("col"),h("col")),h("thead",{class:"unseen"},h("tr",{},c,h("td"),d)),h("tbody",{},...p))}var ps={answer:"Answer",text:"Text",map:"Map",heads:"Heads",flow:"Flow",compare:"Compare"},vn=1500,fe=class{constructor(e,t,s,n){this.root=e;this.linked=n;this.bar=h("header",{class:"bar-top"});this.tabs=h("div",{class:"tabs",role:"tablist","aria-label":"Views"});this.panel=h("div",{class:"panel",role:"tabpanel",tabindex:"-1"});this.notice=h("div",{class:"notice",role:"status"});this.foot=h("footer",{});this.tip=h("div",{class:"tip","aria-hidden":"true"});this.said=h("div",{class:"unseen","aria-live":"polite"});this.dark=window.matchMedia("(prefers-color-scheme: dark)");this.frame=0;this.printing=!1;e.classList.add("mixlens");let r=s&&Ft(s,t,o=>this.show(o));e.replaceChildren(...r?[r]:[],this.bar,this.tabs,this.notice,this.panel,this.foot,this.tip,this.said),this.dark.addEventListener("change",()=>this.update()),window.addEventListener("beforeprint",()=>this.print(!0)),window.addEventListener("afterprint",()=>this.print(!1)),new ResizeObserver(()=>this.soon()).observe(e),n&&window.addEventListener("hashchange",()=>{this.shown.length&&location.hash.slice(1)!==dt(this.context.state,this.first)&&(this.context.state=this.sound(ut(location.hash,this.first)),this.update())}),this.show(t,!0)}show(e,t=!1){Ut(e),this.views={answer:new Ce,text:new Ke,map:new Ie,heads:new We,flow:new Fe,compare:new Ne};let s=this.context?.state.theme??"auto";this.context=new xe(e,{},{set:r=>this.set(r),point:r=>this.point(r),tip:(r,o)=>this.tipAt(r,o),announce:r=>{this.said.textContent=r}});let n=this.shown;this.tabs.replaceChildren(),this.tabs.hidden=n.length<2,this.notice.hidden=!e.maps.length,this.first=n.length?this.firstState(e,s):{theme:s},n.length?this.context.state=t&&this.linked?this.sound(ut(location.hash,this.first)):{...this.first}:this.context.state=this.first,this.update()}get shown(){let{payload:e,measured:t}=this.context,s={answer:()=>!!e.answer,text:()=>t.length>0,map:()=>t.some(n=>n.held.length>1),heads:()=>t.some(n=>n.heads>0),flow:()=>t.some(n=>n.canFlow),compare:()=>t.some((n,r)=>t.some((o,a)=>r<a&&n.targets===o.targets&&n.sources===o.sources))};return ct.filter(n=>s[n]())}withoutMaps(){let{payload:e,palette:t}=this.context;this.bar.replaceChildren(h("p",{class:"title"},e.title)),this.foot.replaceChildren(h("p",{},`mixlens ${e.mixlens}`)),this.panel.replaceChildren(e.ranking?as(e.ranking,t):h("p",{class:"quiet"},"Type a text above and press Measure."))}firstState(e,t){let{measured:s}=this.context,n={method:0,part:"",follow:"words"};if(!s.length)return{view:"answer",...n,theme:t};let r=Math.max(0,e.maps.findIndex(p=>p.measure==="value_zeroing")),o=s[r].sources,a=(o.words??o.labels).length,l=o.words??s[r].targets.words,c=o.segments&&a>vn?"segments":l?"words":"tokens",d=e.start?.target??s[r].held[0]??0;return{view:this.shown.find(p=>p===e.start?.view)??"text",map:r,other:null,target:d,depth:s[r].defaultDepth,rows:"each",head:null,unit:c,threshold:.02,open:c==="segments"?this.strongest(s[r],d):[],node:null,hide:"none",...n,theme:t}}strongest(e,t){let s=new R(e.sources,"segments"),n=new R(e.targets,"tokens"),r={depth:e.defaultDepth,head:null},o=e.incoming(r,n,t,s);return $(o,-1).slice(0,2).map(a=>a.group)}sound(e){let t={...e},{measured:s,answer:n}=this.context;if(this.shown.includes(t.view)||(t.view=this.first.view),n&&(n.about.methods[t.method]||(t.method=0),n.isPart(t.part)||(t.part="")),!s.length)return t;s[t.map]||(t.map=this.first.map);let r=s[t.map];return r.depths.includes(t.depth)||(t.depth=r.defaultDepth),t.head!==null&&(typeof t.depth!="number"||!(t.head>=0&&t.head<r.heads))&&(t.head=null),r.holds(t.target)||(t.target=r.holds(this.first.target)?this.first.target:r.held[r.held.length-1]),t.unit==="segments"&&!r.sources.segments&&(t.unit=r.sources.words?"words":"tokens"),t.unit==="words"&&!r.sources.words&&!r.targets.words&&(t.unit="tokens"),t.other!==null&&!s[t.other]&&(t.other=null),t}set(e){let{context:t}=this;if(t.preview=null,t.state=this.sound({...t.state,...e}),this.linked){let s=dt(t.state,this.first);history.replaceState(null,"",`${location.pathname}${location.search}${s?`#${s}`:""}`)}this.update(),this.tipAt(null,[])}point(e){this.context.preview!==e&&(this.context.preview=e,cancelAnimationFrame(this.frame),this.frame=requestAnimationFrame(()=>this.view.pointed?.(this.context)))}get view(){return this.views[this.context.state.view]}soon(){cancelAnimationFrame(this.frame),this.frame=requestAnimationFrame(()=>this.update())}print(e){this.printing=e,this.update()}paint(){let{theme:e}=this.context.state,t=!this.printing&&(e==="dark"||e==="auto"&&this.dark.matches);this.context.palette=this.printing?Mt:t?kt:he,this.root.dataset.theme=t?"dark":"light",this.linked&&(document.documentElement.dataset.theme=t?"dark":"light")}update(){if(this.paint(),!this.shown.length)return this.withoutMaps();this.context.leaveOut(),this.choices(),this.tabBar(),this.fillNotice();let{element:e}=this.view;this.panel.firstChild!==e&&this.panel.replaceChildren(e),this.view.update(this.context);let t=this.context.state.view==="answer"?Ht:zt;this.foot.replaceChildren(...t(this.context))}choices(){let e=this.context.state.view==="answer"?this.answerFields():this.mapFields(),t=this.root.getRootNode().activeElement,s=t&&this.bar.contains(t)?[...this.bar.querySelectorAll("select, button, summary")].indexOf(t):-1;this.bar.replaceChildren(...e,h("span",{class:"push"}),this.themeButton(),Bt(()=>this.view,this.context,this.linked)),s>=0&&this.bar.querySelectorAll("select, button, summary")[s]?.focus()}answerFields(){let{state:e,answer:t}=this.context;return[O("Method",t.about.methods.map(({name:s},n)=>[String(n),s]),String(e.method),s=>this.set({method:Number(s)})),O("Point at",[["words","Words"],["sentences","Sentences"]],e.follow,s=>this.set({follow:s}))]}mapFields(){let{context:e}=this,{state:t,measured:s,current:n}=e,r=[O("Measure",s.map((d,u)=>[String(u),e.name(d)]),String(t.map),d=>this.set({map:Number(d),head:null}))];n.depths.length>1&&r.push(O("Layer",n.depths.map(d=>[String(d),n.depthName(d),n.upTo.length?xn(d):void 0]),String(t.depth),d=>this.set({depth:ve(d)}))),n.heads&&typeof t.depth=="number"&&r.push(O("Head",[["","whole layer"],...Array.from({length:n.heads},(d,u)=>[String(u),String(u)])],t.head===null?"":String(t.head),d=>this.set({head:d===""?null:Number(d)})));let{words:o,segments:a}=n.sources,l=[["tokens","Tokens"]];(o||n.targets.words)&&l.unshift(["words","Words"]),a&&l.push(["segments","Segments"]),l.length>1&&r.push(O("By",l,t.unit,d=>this.set({unit:d,node:null})));let c=rt(n,this.context.documents);return c.length>1&&t.view!=="flow"&&r.push(O("Leave out",c,t.hide,d=>this.set({hide:d}))),r}fillNotice(){let{context:e}=this,{current:t,state:s}=e;if(this.notice.hidden=!0,s.view==="answer")return;let n=t.warningAt(s.depth),r=e.alike();if(n===null&&!r)return;this.notice.hidden=!1;let o=n??`All targets have nearly the same sources here: they differ by ${w(r.distance)} from their mean. These numbers say little about a single target.`,a=[],l=(c,d)=>a.push(h("button",{type:"button",class:"link",onclick:()=>this.set(d)},c));s.depth!=="mean"&&t.depths.includes("mean")&&l("Show the mean of layers",{depth:"mean"}),r&&St(r)&&rt(t,this.context.documents).some(([c])=>c==="first")&&l("Leave out the first token",{hide:"first"}),this.notice.replaceChildren(h("span",{},`${o} `),...a.flatMap(c=>[c," "]))}themeButton(){let e=this.context.palette.dark;return h("button",{type:"button",class:"plain","aria-label":e?"Light colours":"Dark colours",onclick:()=>this.set({theme:e?"light":"dark"})},e?"☀":"☾")}tabBar(){let{state:e}=this.context;if(!this.tabs.children.length)for(let t of this.shown)this.tabs.append(h("button",{type:"button",role:"tab","data-view":t,onclick:()=>this.set({view:t}),onkeydown:s=>this.tabKey(s)},ps[t]));for(let t of this.tabs.children){let s=t.dataset.view===e.view;t.setAttribute("aria-selected",String(s)),t.tabIndex=s?0:-1}this.panel.setAttribute("aria-label",ps[e.view])}tabKey(e){let t={ArrowLeft:-1,ArrowRight:1}[e.key];if(!t)return;e.preventDefault();let{shown:s}=this,n=(s.indexOf(this.context.state.view)+t+s.length)%s.length;this.set({view:s[n]}),this.tabs.children[n].focus()}tipAt(e,t){let{tip:s}=this;if(s.classList.toggle("on",!!(e&&t.length)),!e||!t.length)return;s.replaceChildren(...t.map((c,d)=>h(d?"div":"b",{dir:"auto"},c)));let{clientX:n,clientY:r}=e,o=s.offsetWidth,a=s.offsetHeight;s.style.left=`${Math.max(4,Math.min(n+14,window.innerWidth-o-8))}px`;let l=r+18+a<=window.innerHeight;s.style.top=`${l?r+18:r-a-12}px`}};function xn(i){return typeof i=="number"?"One layer":q(i)===null?"All layers":"Layers up to one"}var yn=i=>new Promise(e=>setTimeout(e,i)),Ye=class{constructor(e){this.api=e;this.job=null}async ask(e,t={}){let s=await fetch(this.api+e,t);if(s.status===204)return;let n=await s.json().catch(()=>null);if(!s.ok)throw new Error(typeof n?.detail=="string"?n.detail:`The server answered ${s.status}.`);return n}choices(){return this.ask("")}async run(e,t){let s="messages"in e?"/answers":"/jobs",{id:n}=await this.ask(s,{method:"POST",headers:{"Content-Type":"application/json"},body:JSON.stringify(e)});this.job=n;for(let r=80;;r=Math.min(1e3,r*1.3)){let o=await this.ask(`/jobs/${n}`);if(o.state==="done")break;if(o.state==="failed"||o.state==="cancelled")throw new Error(o.message||o.state);t(o.progress,o.message||o.state),await yn(r)}return this.job=null,this.ask(`/jobs/${n}/payload`)}cancel(){this.job&&this.ask(`/jobs/${this.job}`,{method:"DELETE"}).catch(()=>{})}};var ms=`html {
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
`;function gs(i){let e=new CSSStyleSheet;e.replaceSync(ms),i.adoptedStyleSheets=[...i.adoptedStyleSheets,e]}function bs(i,e){try{e()}catch(t){i.replaceChildren(h("p",{role:"alert"},`This view cannot be shown: ${t.message}`))}}var fs=typeof document>"u"?null:document.getElementById("payload"),vt=typeof document>"u"?null:document.getElementById("view");if(fs&&vt){gs(document);let i=JSON.parse(fs.textContent??"null"),e=location.protocol!=="about:";bs(vt,()=>new fe(vt,i,i.live?new Ye(i.live.api):null,e))}var xt=class{constructor(e){this.model=e;this.running=0}choices(){return Promise.resolve(this.model.get("choices"))}run(e){let t=++this.running;return new Promise((s,n)=>{let r=()=>{let o=this.model.get("answer");o.number===t&&(this.model.off("change:answer",r),o.payload?s(o.payload):n(new Error(o.error??"The kernel gave no answer.")))};this.model.on("change:answer",r),this.model.set("job",{...e,number:t}),this.model.save_changes()})}cancel(){}};function Mn({model:i,el:e}){let t=e.attachShadow({mode:"open"});gs(t);let s=h("div");t.append(s),bs(s,()=>new fe(s,i.get("payload"),new xt(i),!1))}return Es(Tn);})();
