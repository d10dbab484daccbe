/* mixlens viewer, built from web/ 103157818782bc3e3971fdb98bce43c563beee1a8b2c940c0fc7bdcc8c93e673 */
"use strict";var mixlensViewer=(()=>{var qt=Object.defineProperty;var Ge=Object.getOwnPropertyDescriptor;var Ue=Object.getOwnPropertyNames;var Be=Object.prototype.hasOwnProperty;var Ve=(o,t)=>{for(var e in t)qt(o,e,{get:t[e],enumerable:!0})},Je=(o,t,e,n)=>{if(t&&typeof t=="object"||typeof t=="function")for(let s of Ue(t))!Be.call(o,s)&&s!==e&&qt(o,s,{get:()=>t[s],enumerable:!(n=Ge(t,s))||n.enumerable});return o};var Ke=o=>Je(qt({},"__esModule",{value:!0}),o);var Pn={};Ve(Pn,{render:()=>Sn});var Y=o=>[Number.parseInt(o.slice(1,3),16),Number.parseInt(o.slice(3,5),16),Number.parseInt(o.slice(5,7),16)],rt={dark:!1,paper:"#ffffff",ink:"#16191d",quiet:"#59626d",line:"#dfe3e8",band:"#f4f6f8",plus:["#f6f8fb","#cfe1f4","#9cc4ea","#5f9fdb","#2a74bd","#0b4586"].map(Y),minus:["#fbf8f5","#fbdfc8","#f5b988","#e58b43","#bf5f14","#803604"].map(Y)},ne={dark:!0,paper:"#101316",ink:"#e8ebef",quiet:"#a0a9b4",line:"#2c333b",band:"#191e23",plus:["#181c21","#14324f","#1a517f","#2f7ab8","#62a9e0","#b4daf8"].map(Y),minus:["#1e1b18","#452811","#754015","#ad611f","#e08a40","#fcc797"].map(Y)},se={...rt,plus:["#f8fafc","#e2edf8","#c9def3","#aecdee","#8cb9e6","#659fda"].map(Y),minus:["#fdfaf7","#fcead9","#f9d6b8","#f3be92","#eba468","#dd8a44"].map(Y)};function Ye(o,t){let e=Math.min(1,Math.max(0,t))*(o.length-1),n=Math.min(Math.floor(e),o.length-2),s=e-n,[r,i]=[o[n],o[n+1]];return[0,1,2].map(a=>Math.round(r[a]+(i[a]-r[a])*s))}function M(o,t){return Ye(t<0?o.minus:o.plus,Math.abs(t))}var $=([o,t,e])=>`rgb(${o}, ${t}, ${e})`;function Xe(o){let[t,e,n]=o.map(s=>{let r=s/255;return r<=.04045?r/12.92:((r+.055)/1.055)**2.4});return .2126*t+.7152*e+.0722*n}function it(o){return Xe(o)>.179?"#000000":"#ffffff"}var Ze={0:"NUL",7:"BEL",8:"BS",9:"TAB",10:"↵",13:"CR",27:"ESC",127:"DEL",160:"NBSP",173:"SHY",1564:"ALM",6158:"MVS",8203:"ZWSP",8204:"ZWNJ",8205:"ZWJ",8206:"LRM",8207:"RLM",8232:"LS",8233:"PS",8234:"LRE",8235:"RLE",8236:"PDF",8237:"LRO",8238:"RLO",8288:"WJ",8294:"LRI",8295:"RLI",8296:"FSI",8297:"PDI",65279:"BOM",65532:"OBJ"},Qe=/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u00a0\ufffc]/gu,re=/[\p{L}\p{M}\p{Extended_Pictographic}\ufe0f\u{1f3fb}-\u{1f3ff}]/u;function X(o){return o.replace(Qe,(t,e)=>{let n=t.codePointAt(0);if(n===10)return"↵";if(n===8204||n===8205){let s=[...o.slice(0,e)].pop()??"",r=[...o.slice(e+1)][0]??"";if(re.test(s)&&re.test(r))return t}return`⟨${Ze[n]??`U+${n.toString(16).toUpperCase().padStart(4,"0")}`}⟩`})}var _=class{constructor(t,e,n=new Set){this.text=t;this.unit=e;this.open=n;this.groups=tn(t,e,n),this.of=new Int32Array(t.labels.length),this.groups.forEach((s,r)=>this.of.fill(r,s.start,s.stop))}get size(){return this.groups.length}label(t){let{start:e,stop:n,segment:s}=this.groups[t],r=s===null?void 0:this.text.segments[s][2];return r===void 0?this.beginning(e,n,s!==null):X(r)}beginning(t,e,n){let s=n?Math.min(e,t+6):e,r="";for(let i=t;i<s;i++)r+=(i>t?this.text.gaps[i].replace(/\s+/g," "):"")+this.text.shown[i];return X(r)+(s<e?" …":"")}special(t){let{start:e,stop:n}=this.groups[t];return this.text.special.slice(e,n).every(s=>s===1)}};function tn(o,t,e){let n=o.labels.length,s=(i,a)=>Array.from({length:a-i},(l,h)=>({start:i+h,stop:i+h+1,segment:null})),r=(i,a)=>o.words?o.words.filter(([l,h])=>l<a&&h>i).map(([l,h])=>({start:Math.max(l,i),stop:Math.min(h,a),segment:null})):s(i,a);return t==="tokens"?s(0,n):t==="words"||!o.segments?r(0,n):o.segments.flatMap(([i,a],l)=>e.has(l)?r(i,a):[{start:i,stop:a,segment:l}])}function ie(o,t){return o.segments?o.segments.findIndex(([e,n])=>e<=t&&t<n):-1}function en(o){let t=atob(o),e=new Uint8Array(t.length);for(let n=0;n<t.length;n++)e[n]=t.charCodeAt(n);return e}var nn=(()=>{let o=new Float32Array(65536);for(let t=0;t<65536;t++){let e=t&32768?-1:1,n=t>>10&31,s=t&1023;n===0?o[t]=e*s*2**-24:n===31?o[t]=s?Number.NaN:e*Number.POSITIVE_INFINITY:o[t]=e*(1+s/1024)*2**(n-15)}return o})();function Z(o){let t=en(o.data).buffer;switch(o.dtype){case"float16":{let e=new Uint16Array(t),n=new Float32Array(e.length);for(let s=0;s<e.length;s++)n[s]=nn[e[s]];return n}case"float32":return new Float32Array(t);case"uint16":return new Uint16Array(t);case"uint32":return new Uint32Array(t);default:throw new Error(`Arrays of ${o.dtype} are not known here.`)}}function dt(o){return o.kind==="dense"?new Dt(o.shares):new Wt(o)}var Dt=class{constructor(t){this.complete=!0;let e=t.shape;this.sources=e[e.length-1],this.targets=e[e.length-2],this.layers=e.slice(0,-2).reduce((n,s)=>n*s,1),this.values=Z(t)}eachOfRow(t,e,n){let s=(t*this.targets+e)*this.sources;for(let r=0;r<this.sources;r++){let i=this.values[s+r];i!==0&&n(r,i)}}eachOfColumn(t,e,n){let s=t*this.targets*this.sources+e;for(let r=0;r<this.targets;r++){let i=this.values[s+r*this.sources];i!==0&&n(r,i)}}},Wt=class{constructor(t){this.complete=!1;this.columns=new Map;[this.layers,this.targets,this.sources]=t.shape,this.starts=Z(t.starts),this.indices=Z(t.indices),this.values=Z(t.values)}eachOfRow(t,e,n){let s=t*this.targets+e;for(let r=this.starts[s];r<this.starts[s+1];r++)n(this.indices[r],this.values[r])}eachOfColumn(t,e,n){let{starts:s,rows:r,values:i}=this.columnsOf(t);for(let a=s[e];a<s[e+1];a++)n(r[a],i[a])}columnsOf(t){let e=this.columns.get(t);if(e)return e;let n=new Uint32Array(this.sources+1);for(let l=0;l<this.targets;l++)this.eachOfRow(t,l,h=>n[h+1]++);for(let l=0;l<this.sources;l++)n[l+1]+=n[l];let s=n.slice(),r=new Uint32Array(n[this.sources]),i=new Float32Array(r.length);for(let l=0;l<this.targets;l++)this.eachOfRow(t,l,(h,p)=>{let u=s[h]++;r[u]=l,i[u]=p});let a={starts:n,rows:r,values:i};return this.columns.set(t,a),a}};function R(o){return typeof o=="string"&&o.startsWith("to")?Number(o.slice(2)):null}function ft(o){return o==="all"||o==="mean"||o.startsWith("to")?o:Number(o)}var mt=class{constructor(t,e){this.entry=e;this.norms=new WeakMap;this.targets=t.texts[e.targets],this.sources=t.texts[e.sources],this.square=e.targets===e.sources,this.held=e.target_positions??this.targets.labels.map((s,r)=>r),this.rowOf=new Map(this.held.map((s,r)=>[s,r])),this.layers=e.scores&&dt(e.scores),this.joined=e.joined&&dt(e.joined.scores),this.perHead=e.heads?dt(e.heads):null,this.heads=this.perHead?this.perHead.layers/e.layers.length:0;let n=s=>s?Z(s):null;this.totals=n(e.totals),this.joinedTotals=n(e.joined?.totals)}get complete(){return(this.layers?.complete??!0)&&(this.joined?.complete??!0)}get whole(){return this.square&&this.entry.target_positions===null&&this.layers!==null}get depths(){let t=this.entry.layers.map((l,h)=>h),{joined:e,reaches_input:n}=this.entry,s=e?.how==="mean"||e?.how==="sum()",r=t.length>1&&!n&&!s?["mean"]:[],i=this.joined?["all"]:[];return[...this.entry.reading==="all"?[...i,...r]:[...r,...i],...this.upTo,...t]}get upTo(){let t=this.joined?.layers??0;return Array.from({length:Math.max(0,t-1)},(e,n)=>`to${n}`)}get defaultDepth(){let{reading:t,layers:e}=this.entry;return t!==void 0&&this.depths.includes(t)?t:this.depths.includes("mean")?"mean":this.joined?"all":e.length-1}hasOwnShare(t){let{own_share:e,joined:n}=this.entry;return!!(this.isJoined(t)?n.own_share:e)}warningAt(t){let{warnings:e,joined:n}=this.entry;return this.isJoined(t)?n.warnings?.[this.joinedLayer(t)]??null:typeof t=="number"?e?.[t]??null:null}joinedLayer(t){return R(t)??this.joined.layers-1}isJoined(t){return this.joined!==null&&typeof t=="string"&&t!=="mean"}depthName(t){if(t==="mean")return`Mean of ${this.entry.layers.length} layers`;let e=this.entry.joined?.how.replace(/\(.*/,"")??"";if(t==="all"&&e==="last")return"Last layer";if(t==="all")return/^-?\d+$/.test(e)?`Layer ${e}`:`All layers (${e})`;let n=R(t);if(n!==null)return`Layers up to ${this.entry.layers[n]} (${e})`;let s=(this.entry.provenance.steps??[]).find(i=>/^(rollout|flow)/.test(i)),r=`Layer ${this.entry.layers[t]}`;return s?`${r} (${s.replace(/\(.*/,"")} up to it)`:r}holds(t){return this.rowOf.has(t)}planes({depth:t,head:e}){return this.isJoined(t)?[this.joinedPlane(this.joinedLayer(t))]:typeof t=="string"?this.entry.layers.flatMap((n,s)=>this.planes({depth:s,head:e})):e!==null&&this.perHead?[{shares:this.perHead,layer:t*this.heads+e,totals:null}]:this.layers?[{shares:this.layers,layer:t,totals:this.part(this.totals,t)}]:[]}joinedPlane(t){return{shares:this.joined,layer:t,totals:this.part(this.joinedTotals,t)}}part(t,e){let n=this.held.length;return t?.subarray(e*n,(e+1)*n)??null}rows(t,e){let{start:n,stop:s}=t.groups[e],r=[];for(let i=n;i<s;i++){let a=this.rowOf.get(i);a!==void 0&&r.push(a)}return r}incoming(t,e,n,s){let r=new Float64Array(s.size),i=this.planes(t),a=this.rows(e,n);for(let l of i){let h=i.length>1?new Float64Array(s.size):r,p=this.accumulate(l,a,s,h),u=p>0?1/p/i.length:0;for(let d=0;d<h.length;d++)h===r?r[d]*=u:r[d]+=h[d]*u}return r}accumulate(t,e,n,s){let r=0;for(let a of e){let l=t.totals?t.totals[a]:1,h=0;t.shares.eachOfRow(t.layer,a,(p,u)=>{s[n.of[p]]+=u*l,h+=Math.abs(u)}),t.shares.complete||(r+=Math.max(0,1-h)*l)}let i=r;for(let a of s)i+=Math.abs(a);return i}outgoing(t,e,n,s){let r=new Float64Array(e.size),i=this.planes(t),{start:a,stop:l}=n.groups[s];for(let h of i){let p=this.normsOf(h,e,n);for(let u=a;u<l;u++)h.shares.eachOfColumn(h.layer,u,(d,m)=>{let g=e.of[this.held[d]],f=p[g],b=h.totals?h.totals[d]:1;f>0&&(r[g]+=m*b/f/i.length)})}return r}normsOf(t,e,n){let s=this.norms.get(e)??new Map;this.norms.set(e,s);let r=`${t.shares===this.perHead} ${t.shares===this.joined} ${t.layer}`,i=s.get(r)??new Float64Array(e.size);if(s.has(r))return i;for(let a=0;a<e.size;a++){let l=this.rows(e,a);if(this.entry.signed)i[a]=this.accumulate(t,l,n,new Float64Array(n.size));else for(let h of l)i[a]+=t.totals?t.totals[h]:1}return s.set(r,i),i}eachTransition(t,e,n){let{residual:s=0,normalise:r}=this.entry.joined,i=this.entry.signed||!this.totals?1:this.totals[t*this.held.length+e],a=s;r!==!1&&this.layers.eachOfRow(t,e,(h,p)=>{a+=(1-s)*Math.abs(p)*i});let l=r===!1?1:a>0?1/a:0;s>0&&n(e,s*l),this.layers.eachOfRow(t,e,(h,p)=>n(h,(1-s)*Math.abs(p)*i*l))}total({depth:t,head:e},n){if(e!==null||typeof t!="number"||!this.totals)return null;let s=this.rowOf.get(n);return s===void 0?null:this.totals[t*this.held.length+s]}};function E(o,t){let e=[];for(let n=0;n<o.length;n++)n!==t&&o[n]!==0&&e.push({group:n,value:o[n]});return e.sort((n,s)=>Math.abs(s.value)-Math.abs(n.value)||n.group-s.group)}function C(o,t){let e=0;for(let n=0;n<o.length;n++)n!==t&&(e=Math.max(e,Math.abs(o[n])));return e}var gt=class{constructor(t,e,n){this.payload=t;this.state=e;this.actions=n;this.preview=null;this.groupings=new Map;this.measured=t.maps.map(s=>new mt(t,s))}get current(){return this.measured[this.state.map]}get choice(){return{depth:this.state.depth,head:this.state.head}}get target(){return this.preview??this.state.target}isPatch(t,e){let{image:n}=this.payload;return!n||t!==this.payload.texts[n.text??this.payload.maps[0].sources]?!1:e>=n.first&&e<n.first+n.rows*n.columns}grouping(t){let e=this.state.unit==="segments"?this.openSegments(t):[],n=`${this.payload.texts.indexOf(t)} ${this.state.unit} ${e.join(",")}`,s=this.groupings.get(n);return s||(this.groupings.size>12&&this.groupings.clear(),s=new _(t,this.state.unit,new Set(e)),this.groupings.set(n,s)),s}fine(t){if(this.state.unit!=="segments")return this.grouping(t);let e=`${this.payload.texts.indexOf(t)} fine`,n=this.groupings.get(e)??new _(t,"words");return this.groupings.set(e,n),n}get ownShare(){return this.current.hasOwnShare(this.state.depth)}openSegments(t){let e=t===this.current.targets?ie(t,this.state.target):-1,n=new Set(this.state.open);return e>=0&&n.add(e),[...n].sort((s,r)=>s-r)}get targets(){return this.grouping(this.current.targets)}get sources(){return this.grouping(this.current.sources)}get targetGroup(){return this.targets.of[this.target]??0}get own(){return this.current.square?this.targetGroup:-1}incoming(t=this.current,e=this.choice){return t.incoming(e,this.targets,this.targetGroup,this.sources)}outgoing(){let{current:t}=this;return t.outgoing(this.choice,this.targets,this.sources,this.targetGroup)}depthFor(t){return t.depths.includes(this.state.depth)?this.state.depth:t.defaultDepth}name(t){let{measure:e,provenance:n}=t.entry,s=n.site;return new Set(this.payload.maps.map(i=>i.provenance.site)).size>1&&s?`${e} · ${s}`:e}};function c(o,t={},...e){let n=document.createElement(o);for(let[s,r]of Object.entries(t))r==null||r===!1||(s.startsWith("on")?n.addEventListener(s.slice(2),r):s==="class"?n.className=String(r):n.setAttribute(s,r===!0?"":String(r)));return n.append(...e.filter(s=>s!=null&&s!==!1)),n}function z(o){let t=[...o];return t.length>32?`${t.slice(0,31).join("")}…`:o}function bt(o){let t=o.length-1;return o.flatMap((e,n)=>[n===0?"":n===t?" and ":", ",...e])}function v(o){let t=Math.abs(o*100);if(t>0&&t<.005)return"under 0.01 %";let e=t>=9.95?0:t>=.095?1:2;return`${o<0?"−":""}${t.toFixed(e)} %`}var T=o=>`⁨${o}⁩`;function D(o,t,e,n){let s=c("select",{onchange:i=>n(i.target.value)}),r=new Map;for(let[i,a,l]of t){let h=l?r.get(l)??c("optgroup",{label:l}):s;l&&r.set(l,h),h!==s&&s.append(h),h.append(c("option",{value:i,selected:i===e},a))}return c("label",{class:"field"},c("span",{},o),s)}function j(o){let t={ArrowLeft:[-1,0],ArrowRight:[1,0],ArrowUp:[0,-1],ArrowDown:[0,1]};return c("canvas",{tabindex:"0",role:"img",onmousemove:o.over,onmouseleave:o.leave,onclick:o.choose,onkeydown:e=>{let n=t[e.key];e.key==="Enter"&&o.choose(),n&&(e.preventDefault(),o.step(...n))}})}var L=(o,t)=>Math.max(0,Math.min(t-1,o));function F(o,t){let e=c("details",{class:"behind"},c("summary",{},`${o} as a table`));return e.addEventListener("toggle",()=>{e.open&&ae(e,t())}),e}function q(o,t){o.open&&ae(o,t())}var oe=400;function ae(o,[t,...e]){o.querySelector("div")?.remove();let n=c("table",{},c("thead",{},c("tr",{},...(t??[]).map(r=>c("th",{scope:"col"},r)))),c("tbody",{},...e.slice(0,oe).map(r=>c("tr",{},...r.map((i,a)=>a?c("td",{},i):c("th",{scope:"row"},i)))))),s=e.length-oe;o.append(c("div",{class:"wide",tabindex:"0",role:"region","aria-label":"Table"},n,s>0&&c("p",{},`${s} more rows are in the CSV file.`)))}function le(o){let{current:t,payload:e}=o,{provenance:n,citation:s,summary:r,notes:i,measure:a,joined:l}=t.entry,h=Object.entries(n.options??{}).map(([g,f])=>`${g}=${String(f)}`).join(", "),p=(n.steps??[]).join(" → "),u=n.name??n.model??"",d=[u&&`${u}${n.dtype?` in ${String(n.dtype)}`:""}`,`${a}${h?` (${h})`:""}${p?` → ${p}`:""}`,l&&t.isJoined(o.state.depth)&&`layers joined by ${l.how}`,n.site,s,"shares in float16, three digits",`mixlens ${e.mixlens}`],m=[...i??[]];if(!t.complete){let g=Array.from(o.incoming()).reduce((f,b)=>f+Math.abs(b),0);m.push(`Of each row and column only the largest shares are in this page. For this target ${v(Math.max(0,1-g))} is left out.`)}return[c("p",{},c("b",{},a),r?`: ${r}.`:"."),c("p",{},d.filter(Boolean).join(" · ")),...m.map(g=>c("p",{},g))]}var sn=o=>new Promise(t=>setTimeout(t,o)),vt=class{constructor(t){this.api=t;this.job=null}async ask(t,e={}){let n=await fetch(this.api+t,e);if(n.status===204)return;let s=await n.json().catch(()=>null);if(!n.ok)throw new Error(typeof s?.detail=="string"?s.detail:`The server answered ${n.status}.`);return s}choices(){return this.ask("")}async run(t,e){let{id:n}=await this.ask("/jobs",{method:"POST",headers:{"Content-Type":"application/json"},body:JSON.stringify(t)});this.job=n;for(let s=80;;s=Math.min(1e3,s*1.3)){let r=await this.ask(`/jobs/${n}`);if(r.state==="done")break;if(r.state==="failed"||r.state==="cancelled")throw new Error(r.message||r.state);e(r.progress,r.message||r.state),await sn(s)}return this.job=null,this.ask(`/jobs/${n}/payload`)}cancel(){this.job&&this.ask(`/jobs/${this.job}`,{method:"DELETE"}).catch(()=>{})}},rn=["value_zeroing","attention","alti"];function he(o,t,e){let n=c("textarea",{rows:"2","aria-label":"Text",spellcheck:"false"});n.value=t.texts[0]?on(t):"";let s=c("textarea",{rows:"2","aria-label":"Target text: what the decoder is given",placeholder:"What the decoder is given",spellcheck:"false",hidden:!0}),r=c("span",{class:"live-fields"}),i=c("fieldset",{class:"checks"},c("legend",{},"Measures")),a=c("input",{type:"checkbox"}),l=c("button",{type:"submit",class:"primary"},"Measure"),h=c("button",{type:"button",hidden:!0,onclick:()=>o.cancel()},"Cancel"),p=c("progress",{max:"1",hidden:!0,"aria-label":"Progress"}),u=c("p",{class:"quiet",role:"status"}),d="",m=c("form",{class:"live",onsubmit:f=>{f.preventDefault(),g()}},n,s,c("div",{class:"live-line"},r,c("details",{class:"behind"},c("summary",{},"Measures"),i,c("label",{},a," single heads too")),l,h,p,u));async function g(){let f=[...i.querySelectorAll("input:checked")].map(b=>b.value);l.disabled=!0,p.hidden=h.hidden=!1,u.textContent="",u.classList.remove("wrong");try{let b={model:d,text:n.value,target_text:s.hidden?null:s.value,measures:f,heads:a.checked};e(await o.run(b,(w,y)=>{p.value=w,u.textContent=y})),u.textContent=""}catch(b){u.textContent=b.message,u.classList.add("wrong")}finally{l.disabled=!1,p.hidden=h.hidden=!0}}return o.choices().then(f=>{d=f.models[0]?.name??"";let b=()=>{s.hidden=!f.models.find(y=>y.name===d)?.pairs};b(),f.models.length>1&&r.append(D("Model",f.models.map(({name:y})=>[y,y]),d,y=>{d=y,b()}));let w=new Set(t.maps.map(y=>y.measure));for(let{name:y,summary:A}of f.measures){let k=w.size?w.has(y):rn.includes(y);i.append(c("label",{title:A??""},c("input",{type:"checkbox",value:y,checked:k}),` ${y}`))}},f=>{u.textContent=f.message,u.classList.add("wrong")}),m}function on(o){let{shown:t,gaps:e,special:n,labels:s}=o.texts[0];return t.map((r,i)=>n[i]&&!/mask/i.test(s[i])?"":e[i]+r).join("").trim()}var ce='system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif',ue=(o,t=400)=>`${t} ${o}px ${ce}`,J=class{constructor(t){this.pen=t;this.rect=(t,e,n,s,r,i,a=1,l=0)=>{let{pen:h}=this;h.beginPath(),l?h.roundRect(t,e,n,s,l):h.rect(t,e,n,s),r&&(h.fillStyle=r,h.fill()),i&&(h.strokeStyle=i,h.lineWidth=a,h.stroke())};this.text=(t,e,n,s)=>{let{pen:r}=this;r.save(),r.font=ue(s.size,s.weight),r.fillStyle=s.fill,r.textAlign=s.align??"left",r.direction=s.rtl?"rtl":"ltr",r.translate(t,e),s.rotate&&r.rotate(s.rotate*Math.PI/180),r.fillText(n,0,0),r.restore()};this.curve=(t,e,n,s,r,i,a)=>{let{pen:l}=this,h=(e+s)/2;l.save(),l.globalAlpha=a,l.strokeStyle=i,l.lineWidth=r,l.lineCap="round",l.beginPath(),l.moveTo(t,e),l.bezierCurveTo(t,h,n,h,n,s),l.stroke(),l.restore()};this.circle=(t,e,n,s,r)=>{let{pen:i}=this;i.beginPath(),i.arc(t,e,n,0,2*Math.PI),i.fillStyle=s,i.fill(),r&&(i.strokeStyle=r,i.lineWidth=2,i.stroke())};this.image=(t,e,n,s,r,i=!1)=>{this.pen.imageSmoothingEnabled=i,this.pen.drawImage(t,e,n,s,r)}}width(t,e,n){return pe(t,e,n)}},It=null;function pe(o,t,e){return It??=document.createElement("canvas").getContext("2d"),It.font=ue(t,e),It.measureText(o).width}var Q=o=>Math.round(o*100)/100,ot=class{constructor(){this.parts=[];this.rect=(t,e,n,s,r,i,a=1,l=0)=>{this.put("rect",{x:t,y:e,width:n,height:s,rx:l||void 0,fill:r??"none",stroke:i,"stroke-width":i&&a})};this.text=(t,e,n,s)=>{let r={left:"start",center:"middle",right:"end"}[s.align??"left"];this.put("text",{x:s.rotate?0:t,y:s.rotate?0:e,transform:s.rotate?`translate(${Q(t)} ${Q(e)}) rotate(${s.rotate})`:void 0,"font-size":s.size,"font-weight":s.weight,fill:s.fill,direction:s.rtl?"rtl":void 0,"text-anchor":r==="start"?void 0:r},_t(n))};this.curve=(t,e,n,s,r,i,a)=>{let[l,h,p,u,d]=[t,e,n,s,(e+s)/2].map(Q);this.put("path",{d:`M${l} ${h}C${l} ${d} ${p} ${d} ${p} ${u}`,fill:"none",stroke:i,"stroke-width":r,"stroke-opacity":a,"stroke-linecap":"round"})};this.circle=(t,e,n,s,r)=>{this.put("circle",{cx:t,cy:e,r:n,fill:s,stroke:r,"stroke-width":r&&2})};this.image=(t,e,n,s,r)=>{let i=t instanceof HTMLCanvasElement?t.toDataURL("image/png"):t.src;this.put("image",{x:e,y:n,width:s,height:r,href:i,preserveAspectRatio:"none",style:"image-rendering:pixelated"})}}put(t,e,n=""){let s=Object.entries(e).filter(([,r])=>r!==void 0).map(([r,i])=>`${r}="${_t(String(typeof i=="number"?Q(i):i))}"`).join(" ");this.parts.push(`<${t} ${s}${n?`>${n}</${t}>`:"/>"}`)}width(t,e,n){return pe(t,e,n)}file(t,e,n){let[s,r]=[Q(t),Q(e)],a=`<svg xmlns="http://www.w3.org/2000/svg" ${`width="${s}" height="${r}" viewBox="0 0 ${s} ${r}"`} font-family="${_t(ce)}">`,l=`<rect width="100%" height="100%" fill="${n}"/>`;return`${a}${l}${this.parts.join("")}</svg>
`}};function _t(o){return o.replace(/[&<>"]/g,t=>({"&":"&amp;","<":"&lt;",">":"&gt;",'"':"&quot;"})[t])}function S(o,t,e,n){if(o.width(t,e)<=n)return t;let s=[...t];for(;s.length>1&&o.width(`${s.join("")}…`,e)>n;)s.pop();return`${s.join("")}…`}function P(o,t,e){let n=Math.max(1,window.devicePixelRatio||1);o.width=Math.max(1,Math.round(t*n)),o.height=Math.max(1,Math.round(e*n)),o.style.width=`${t}px`,o.style.height=`${e}px`;let s=o.getContext("2d");return s.setTransform(n,0,0,n,0,0),s.clearRect(0,0,t,e),new J(s)}var wt=1e3,at=28;function an(o){let{current:t,state:e}=o,{provenance:n}=t.entry,s=n.name??n.model??"",r=e.head===null?"":`, head ${e.head}`;return[`${o.name(t)}, ${t.depthName(e.depth).toLowerCase()}${r}`,s,`mixlens ${o.payload.mixlens}`].filter(Boolean).join(" · ")}var Gt=class{constructor(t,e){this.inner=t;this.by=e;this.rect=(t,e,...n)=>this.inner.rect(t+this.by,e+this.by,...n);this.text=(t,e,...n)=>this.inner.text(t+this.by,e+this.by,...n);this.circle=(t,e,...n)=>this.inner.circle(t+this.by,e+this.by,...n);this.curve=(t,e,n,s,...r)=>this.inner.curve(t+this.by,e+this.by,n+this.by,s+this.by,...r);this.image=(t,e,n,...s)=>this.inner.image(t,e+this.by,n+this.by,...s);this.width=(...t)=>this.inner.width(...t)}};function Ut(o,t,e){let n=wt-2*at,s=o.paint(new Gt(e,at),t,n);return e.text(at,at+s+22,an(t),{size:12,fill:t.palette.quiet}),s+2*at+22}function de(o,t){let e=new ot,n=Ut(o,t,e);return e.file(wt,n,t.palette.paper)}function me(o,t,e=2){let n=Ut(o,t,new ot),s=document.createElement("canvas");s.width=wt*e,s.height=Math.round(n*e);let r=s.getContext("2d");return r.scale(e,e),r.fillStyle=t.palette.paper,r.fillRect(0,0,wt,n),Ut(o,t,new J(r)),new Promise((i,a)=>s.toBlob(l=>l?i(l):a(new Error("The picture is too large for this browser.")),"image/png"))}function fe(o){let t=e=>{let n=/^[=@+\t\r]/.test(e)||/^-(?![\d.])/.test(e)?`'${e}`:e;return/[",\n\r]/.test(n)?`"${n.replaceAll('"','""')}"`:n};return`${o.map(e=>e.map(t).join(",")).join(`\r
`)}\r
`}function ge(o,t){let[e,...n]=o.rows(t),{current:s,state:r}=t,i=s.depthName(r.depth),{provenance:a}=s.entry;return`${JSON.stringify({state:r,depth:i,provenance:a,columns:e,rows:n},null,2)}
`}function lt(o,t,e){let n=typeof t=="string"?new Blob([t],{type:e}):t,s=document.createElement("a");s.href=URL.createObjectURL(n),s.download=o,s.click(),setTimeout(()=>URL.revokeObjectURL(s.href),1e4)}function be(o,t,e){let n=c("summary",{},"Save"),s=c("details",{class:"menu"},n),r=(h,p)=>c("button",{type:"button",onclick:async()=>{s.open=!1;try{await p()}catch(d){n.textContent="Not possible here",n.title=d.message,t.actions.announce(d.message)}}},h),i=h=>`mixlens-${t.state.view}.${h}`,a=()=>me(o(),t),l=[r("Picture (PNG)",async()=>lt(i("png"),await a(),"image/png")),r("Drawing (SVG)",()=>lt(i("svg"),de(o(),t),"image/svg+xml")),r("Numbers (CSV)",()=>lt(i("csv"),fe(o().rows(t)),"text/csv")),r("Numbers (JSON)",()=>lt(i("json"),ge(o(),t),"application/json")),r("Copy the picture",()=>navigator.clipboard.write([new ClipboardItem({"image/png":a()})]))];return e&&l.push(r("Copy a link to this view",()=>navigator.clipboard.writeText(location.href))),s.append(c("div",{},...l)),s.addEventListener("keydown",h=>{h.key==="Escape"&&(s.open=!1)}),s}function ve(o){if(o?.format!=="mixlens")throw new Error("This is not a mixlens payload.");if(o.version!==1)throw new Error(`This viewer shows payloads of version 1, not ${o.version}.`);return o}var G=["text","map","heads","flow","compare"];function Bt(o,t){let e=new URLSearchParams,n=(s,r,i)=>{JSON.stringify(r)!==JSON.stringify(i)&&e.set(s,String(r??""))};return n("view",o.view,t.view),n("measure",o.map,t.map),n("with",o.other,t.other),n("target",o.target,t.target),n("layer",o.depth,t.depth),n("rows",o.rows,t.rows),n("head",o.head,t.head),n("unit",o.unit,t.unit),n("from",o.threshold,t.threshold),n("open",o.open,t.open),n("node",o.node,t.node),n("theme",o.theme,t.theme),e.toString()}function Vt(o,t){let e=new URLSearchParams(o.replace(/^#/,"")),n=(h,p)=>{let u=e.get(h),d=Number(u);return u!==null&&u!==""&&Number.isFinite(d)?d:p},s=(h,p)=>e.get(h)===""?null:e.has(h)?n(h,-1):p,r=(h,p,u)=>p.find(d=>d===e.get(h))??u,i=h=>(e.get(h)??"").split(",").filter(Boolean).map(Number),a=e.get("layer"),l=i("node");return{view:r("view",G,t.view),map:n("measure",t.map),other:s("with",t.other),target:n("target",t.target),depth:a?ft(a):t.depth,rows:r("rows",["each","upto"],t.rows),head:s("head",t.head),unit:r("unit",["tokens","words","segments"],t.unit),threshold:n("from",t.threshold),open:e.has("open")?i("open"):t.open,node:l.length===2?[l[0],l[1]]:null,theme:r("theme",["auto","light","dark"],t.theme)}}function Jt(o){let t=Array.from({length:o.length},(n,s)=>s).sort((n,s)=>Math.abs(o[s])-Math.abs(o[n])),e=new Float64Array(o.length);for(let n=0;n<t.length;){let s=n;for(;s<t.length&&Math.abs(o[t[s]])===Math.abs(o[t[n]]);)s++;for(let r=n;r<s;r++)e[t[r]]=(n+1+s)/2;n=s}return e}function Kt(o,t){let e=Jt(o),n=Jt(t),s=(e.length+1)/2,r=0,i=0,a=0;for(let l=0;l<e.length;l++)r+=(e[l]-s)*(n[l]-s),i+=(e[l]-s)**2,a+=(n[l]-s)**2;return i&&a?r/Math.sqrt(i*a):Number.NaN}function xt(o,t){return Array.from(o).filter((e,n)=>n!==t)}function tt(o,t){let e=Array.from(o[0]??[],(r,i)=>i).filter(r=>r!==t),n=o.map(r=>Jt(e.map(i=>r[i])));return e.map((r,i)=>{let a=o.map(u=>Math.abs(u[r])),l=a.indexOf(Math.max(...a)),h=a.indexOf(Math.min(...a)),p=a[l]-a[h];return{group:r,high:l,low:h,highRank:n[l][i],lowRank:n[h][i],weight:p}}).sort((r,i)=>i.weight-r.weight)}var ln=6;function yt(o){let{current:t,state:e}=o;return o.measured.filter(n=>n.targets===t.targets&&n.sources===t.sources&&n.holds(e.target)).map(n=>({measured:n,values:o.incoming(n,{depth:o.depthFor(n),head:null})}))}function ht(o,t,e){return Kt(xt(t.values,o.own),xt(e.values,o.own))}function kt(o,t){let e=t.find(a=>a.measured===o.current),n=t.filter(a=>a!==e);if(!e||!n.length)return null;let s=n.filter(a=>a.measured.entry.layers.length>0),r=(s.length?s:n).filter(a=>a.measured.entry.measure!=="random"),i=a=>{let l=ht(o,e,a);return Number.isNaN(l)?2:l};return(r.length?r:n).reduce((a,l)=>i(l)<i(a)?l:a)}function Mt(o){return o>.8?"agree":o>.4?"agree in part":"disagree"}function xe(o,t){let{own:e,sources:n}=o,s=t.map(u=>u.values),r=tt(s,e).slice(0,ln),i=Math.max(...s.map(u=>C(u,e))),a=s.map(u=>E(u,e).map(d=>d.group)),l=t.flatMap(u=>[c("th",{scope:"col",colspan:"2"},o.name(u.measured)),c("th",{scope:"col",class:"place"},"rank")]),h=u=>s.flatMap((d,m)=>[c("td",{class:"bars"},Yt(o,d[u],i)),c("td",{class:"number"},v(d[u])),c("td",{class:"place"},hn(a[m].indexOf(u)))]),p=r.filter(u=>u.weight>0).map(({group:u})=>{let d=c("th",{scope:"row",dir:"auto"},n.label(u));return c("tr",{},d,...h(u))});return[c("thead",{},c("tr",{},c("th",{scope:"col"},"token"),...l)),c("tbody",{},...p)]}var hn=o=>o<0?"–":`no. ${o+1}`;function Yt(o,t,e,n){let s=c("span",{class:"bar"});return s.style.width=`${Math.min(100,e>0?Math.abs(t)/e*100:0)}%`,s.style.backgroundColor=n??$(M(o.palette,t<0?-.72:.72)),s}function ye(o,t){let e=t.map(r=>xt(r.values,o.own)),n=t.map((r,i)=>c("th",{scope:"col"},we(i))),s=t.map((r,i)=>{let a=c("th",{scope:"row"},`${we(i)}  ${o.name(r.measured)}`),l=e.map((h,p)=>i===p?c("td",{class:"same"},"·"):cn(o,Kt(e[i],h)));return c("tr",{},a,...l)});return c("table",{},c("thead",{},c("tr",{},c("td"),...n)),c("tbody",{},...s))}function cn(o,t){if(Number.isNaN(t))return c("td",{},"–");let e=c("td",{},t.toFixed(2).replace("-","−")),n=M(o.palette,t*.9);return e.style.backgroundColor=$(n),e.style.color=it(n),e}function we(o){return o<26?String.fromCharCode(97+o):String(o)}var $e=/[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;function ke(o){for(let t of o){let e=/\p{L}/u.exec(t.replace(/^[[<].*[\]>]$/,""));if(e)return $e.test(e[0])}return!1}function un(o){return o.split(`
`).flatMap((t,e)=>{let n=e?[c("br")]:[];return t&&n.push(document.createTextNode(t.replace(/\s+/g," "))),n})}function Me(o){let t=new Map,e=o.unit==="segments";return o.text.segments?.forEach(([n,s,r],i)=>{e&&o.open.has(i)?t.set(n,c("div",{class:"fold","data-fold":i,"aria-hidden":"true",title:"Close"},`▾ ${X(r??"")} ${s-n} tokens`)):!e&&r!==void 0&&t.set(n,c("div",{class:"segment-name"},X(r)))}),t}var K=class{constructor(t,e,n=!1){this.handlers=e;this.ofTargets=n;this.grouping=null;this.items=[];this.shades=[];this.palette=null;this.marked=-1;this.inSight=null;this.element=c("div",{class:"reading",role:"listbox","aria-label":t,onclick:s=>this.at(s,r=>this.handlers.choose(r)),onmousemove:s=>this.over(s),onmouseleave:s=>this.handlers.point(null,s),onkeydown:s=>this.key(s),onfocusin:s=>this.at(s,r=>this.handlers.point(r,null)),onfocusout:()=>this.handlers.point(null,null)})}at(t,e){let n=t.target.closest("[data-fold]");n&&t.type==="click"&&this.handlers.close?.(Number(n.dataset.fold));let s=t.target.closest("[data-group]");s&&e(Number(s.dataset.group))}over(t){let e=t.target.closest("[data-group]"),n=e?Number(e.dataset.group):null;this.handlers.point(n,t)}key(t){let e=this.items.indexOf(t.target);if(e<0)return;let n=this.element.matches(":dir(rtl)")?"ArrowLeft":"ArrowRight",s=n==="ArrowRight"?"ArrowLeft":"ArrowRight",r={[n]:e+1,[s]:e-1,ArrowDown:e+1,ArrowUp:e-1,Home:0,End:this.items.length-1};if(t.key==="Enter"||t.key===" ")this.handlers.choose(e);else if(t.key in r){let i=Math.max(0,Math.min(this.items.length-1,r[t.key]));this.focus(i)}else return;t.preventDefault()}focus(t){for(let e of this.items)e.tabIndex===0&&(e.tabIndex=-1);this.items[t].tabIndex=0,this.items[t].focus()}show(t,e){t!==this.grouping&&(this.build(t,e),this.palette=null),e.palette!==this.palette&&(this.shades=new Array(t.size).fill(Number.NaN),this.palette=e.palette)}holds(t,{start:e,stop:n}){if(!this.ofTargets)return!0;for(let s=e;s<n;s++)if(t.current.holds(s))return!0;return!1}get isEmpty(){return!this.element.firstChild}build(t,e){let n=this.items.indexOf(this.element.getRootNode().activeElement);this.grouping=t,this.marked=-1;let{text:s}=t,r=[],i=Me(t);this.items=t.groups.map((h,p)=>{let u=e.isPatch(s,h.start)||!this.holds(e,h),d=i.get(h.start);d?r.push(d):!u&&h.segment===null&&r.push(...un(s.gaps[h.start]));let m=t.special(p)&&!/mask/i.test(s.labels[h.start]),g=c("span",{class:["token",m&&"special",h.segment!==null&&"segment"].filter(Boolean).join(" "),role:"option",dir:"auto",tabindex:"-1","aria-selected":"false","data-group":p}),f=t.label(p);return g.append(f),h.segment!==null&&g.append(c("small",{},`${h.stop-h.start} tokens`),c("small",{})),u||r.push(g),!u&&f.endsWith("↵")&&r.push(c("br")),g}),this.element.replaceChildren(...r),this.element.dir=ke(s.shown)?"rtl":"ltr";let a=this.element.querySelectorAll(".token").length;this.element.dataset.size=a<=40?"large":a<=150?"middle":a<=700?"small":"tiny";let l=this.items[Math.max(0,n)]??this.items[0];l&&(l.tabIndex=0),n>=0&&l?.focus()}find(t){let e=this.items[t];if(!e)return;this.reveal(t),e.classList.remove("found"),e.offsetWidth,e.classList.add("found");let n=e.getBoundingClientRect();(n.top<0||n.bottom>window.innerHeight)&&e.scrollIntoView({block:"center"})}shadeBy(t,e,n,s,r){this.items.forEach((a,l)=>{let h=n>0&&l!==s?Math.round(e[l]/n*64)/64:0;if(this.shades[l]===h)return;this.shades[l]=h;let p=M(t.palette,h);a.style.backgroundColor=h===0?"":$(p),a.style.color=h===0?"":it(p),this.grouping.groups[l].segment!==null&&(a.lastElementChild.textContent=v(e[l]))}),r&&s>=0&&this.inSight!==this.items[s]&&this.reveal(s),this.marked>=0&&this.items[this.marked]?.classList.remove("target","pointed"),this.marked=s;let i=this.items[s];if(i?.classList.add("target"),i?.classList.toggle("pointed",!r),r){let a=this.element.getRootNode().activeElement,l=a&&this.element.contains(a);this.items.forEach((h,p)=>{let u=String(p===s);h.getAttribute("aria-selected")!==u&&h.setAttribute("aria-selected",u),!l&&h.tabIndex===0!=(p===Math.max(0,s))&&(h.tabIndex=p===Math.max(0,s)?0:-1)})}}reveal(t){let e=this.items[t];this.inSight=e;let{element:n}=this,s=e.offsetTop-n.offsetTop,r=s<n.scrollTop,i=s+e.offsetHeight>n.scrollTop+n.clientHeight;(r||i)&&(n.scrollTop=s-n.clientHeight/2)}describe(t,e){this.items[t]?.setAttribute("aria-label",e)}paint(t,e,n,s,r,i,a,l){let h=this.grouping,{palette:p}=e,u=h.size<=40?22:h.size<=150?17:13,d=u*1.8,m=h.groups.map((y,A)=>S(t,h.label(A),u,r-12)),g=ke(h.text.shown),f=Me(h),b=0,w=s+d*.8;return m.forEach((y,A)=>{let{start:k}=h.groups[A];if(e.isPatch(h.text,k)||!this.holds(e,h.groups[A]))return;let N=f.get(k)?.textContent;N&&(w+=b>0?d:0,t.text(n,w,N,{size:12,fill:p.quiet}),[b,w]=[0,w+d]);let W=N?"":h.text.gaps[k],O=t.width(y,u)+8;b>0&&(W.includes(`
`)||b+O>r)?(b=0,w+=d):b>0&&W&&(b+=u*.16);let I=a>0&&A!==l?i[A]/a:0,pt=M(p,I),ee=g?n+r-b-O:n+b,Ie=A===l?p.ink:void 0;t.rect(ee,w-u*1.05,O,u*1.45,I?$(pt):null,Ie,2,5);let _e=I?it(pt):h.special(A)&&A!==l?p.quiet:p.ink;t.text(ee+O/2,w,y,{size:u,fill:_e,align:"center",rtl:$e.test(y)}),b+=O}),w+d*.5-s}};function $t(o){let t=o.map(([n,s])=>`${T(n)} ${v(s)}`),e=t.pop()??"nothing";return t.length?`${t.join(", ")} and ${e}`:e}var Te=190,et=22,Tt=class{constructor(){this.headline=c("h1",{class:"answer"});this.choices=c("div",{class:"pair-choices"});this.names=[c("h2",{}),c("h2",{})];this.tops=[c("p",{class:"quiet"}),c("p",{class:"quiet"})];this.disputed=c("table",{class:"disputes"});this.matrix=c("div",{class:"wide matrix",tabindex:"0",role:"region","aria-label":"Agreement of measures"});this.leftOut=c("details",{class:"behind"});this.rowsShown=[];this.cell=10;this.left=Te;let t=()=>new K("The text: choose a target",{choose:n=>this.choose(n),close:n=>this.close(n),point:(n,s)=>this.point(n,s)});this.readings=[t(),t()],this.canvas=c("canvas",{role:"img",tabindex:"0",onmousemove:n=>this.over(n),onmouseleave:()=>this.context.actions.tip(null,[]),onclick:n=>this.pick(Math.floor(n.offsetY/et))}),this.table=F("Measures",()=>this.rows());let e=n=>c("section",{class:"pair-side"},this.names[n],this.readings[n].element,this.tops[n]);this.element=c("div",{class:"compare-view"},this.headline,this.choices,c("div",{class:"pair"},e(0),e(1)),c("h2",{},"What they dispute"),this.disputed,c("h2",{},"Every measure, this target"),c("p",{class:"quiet hint"},"Each row is shaded by its own largest share. Point at a cell for its number, click a row to compare with it."),this.canvas,this.table,c("h2",{},"Rank agreement"),c("p",{class:"quiet hint"},"Spearman's rank correlation over all sources but the target itself."),this.matrix,this.leftOut)}choose(t){let{start:e,stop:n,segment:s}=this.context.sources.groups[t],{open:r}=this.context.state;if(s!==null)return this.context.actions.set({open:[...r,s]});if(this.context.current.square){for(let i=e;i<n;i++)if(this.context.current.holds(i))return this.context.actions.set({target:i,node:null})}}close(t){let e=this.context.state.open.filter(n=>n!==t);this.context.actions.set({open:e})}point(t,e){if(t===null||!e)return this.context.actions.tip(null,[]);let n=this.context.sources.label(t);this.context.actions.tip(e,[n,...this.pair().map(s=>`${this.context.name(s.measured)}: ${v(s.values[t])}`)])}pair(){let{state:t,measured:e}=this.context;return[t.map,t.other??t.map].map(n=>this.rowsShown.find(s=>s.measured===e[n])).filter(Boolean)}update(t){this.context=t,this.rowsShown=yt(t);let{state:e,measured:n}=t,s=kt(t,this.rowsShown);if(!s){this.refuse();return}this.element.classList.remove("alone");let r=this.rowsShown.map(i=>n.indexOf(i.measured));(e.other===null||e.other===e.map||!r.includes(e.other))&&(e.other=n.indexOf(s.measured)),this.choices.replaceChildren(D(`Compare ${t.name(t.current)} with`,r.filter(i=>i!==e.map).map(i=>[String(i),t.name(n[i])]),String(e.other),i=>t.actions.set({other:Number(i)}))),this.sides(),this.headlines(),this.disputed.replaceChildren(...xe(t,this.pair())),this.draw(),this.matrix.replaceChildren(ye(t,this.rowsShown)),this.fillLeftOut(),q(this.table,()=>this.rows())}refuse(){this.element.classList.add("alone"),this.rowsShown=[];let{measure:t}=this.context.current.entry;this.headline.textContent=`Only ${t} holds this target here.`,this.choices.replaceChildren(c("p",{class:"quiet"},"Give the page several measures of the same text to see where they disagree: maps.to_html(path, *others), or mixlens compare … --html out.html."))}sides(){let{context:t}=this;this.pair().forEach(({measured:e,values:n},s)=>{let r=C(n,t.own);this.readings[s].show(t.sources,t),this.readings[s].shadeBy(t,n,r,t.own,!0),this.names[s].textContent=t.name(e);let i=E(n,t.own).slice(0,3).map(a=>[t.sources.label(a.group),a.value]);this.tops[s].textContent=`${e.depthName(t.depthFor(e))}: ${$t(i)}`})}headlines(){let{context:t}=this,e=this.pair(),n=e.map(h=>h.values),s=ht(t,e[0],e[1]),r=tt(n,t.own)[0],i=c("b",{class:"outlined"},z(t.targets.label(t.targetGroup))),[a,l]=e.map(h=>t.name(h.measured));this.headline.replaceChildren("About ",i,`, ${a} and ${l} ${Mt(s)} (rank correlation ${s.toFixed(2)})`),r&&this.headline.append("; they differ most on ",c("b",{},z(t.sources.label(r.group))),`: ${v(n[0][r.group])} against ${v(n[1][r.group])}.`)}draw(){let t=this.element.clientWidth||900,e=this.height(t);this.painted(P(this.canvas,t,e),this.context,0),this.canvas.setAttribute("aria-label",`${this.rowsShown.length} measures by ${this.context.sources.size} sources: the shares of the target, as a heat map. A click compares with that measure.`)}height(t){return this.left=Math.min(Te,Math.round(t*.36)),this.cell=(t-this.left)/this.context.sources.size,this.rowsShown.length*et+(this.cell>=13?74:6)}painted(t,e,n){let{palette:s,own:r,sources:i,state:a,measured:l}=e;this.rowsShown.forEach(({measured:p,values:u},d)=>{let m=n+d*et,g=C(u,r)||1,f=p===l[a.map]||p===l[a.other??-1];t.text(this.left-10,m+15,S(t,e.name(p),13,this.left-16),{size:13,align:"right",fill:f?s.ink:s.quiet,weight:f?700:400});for(let b=0;b<i.size;b++){let w=b===r?0:u[b]/g;t.rect(this.left+b*this.cell,m,Math.max(this.cell-(this.cell>6?1:0),.6),et-2,$(M(s,w)))}});let h=n+this.rowsShown.length*et;r>=0&&this.cell>=3&&t.rect(this.left+r*this.cell,n-.5,this.cell-1,h-n-1,null,s.ink,1.5,2),this.cell>=13&&i.groups.forEach((p,u)=>t.text(this.left+(u+.5)*this.cell+4,h+12,S(t,i.label(u),12,88),{size:12,rotate:-45,align:"right",fill:u===r?s.ink:s.quiet,weight:u===r?700:400}))}over(t){let e=this.rowsShown[Math.floor(t.offsetY/et)],n=Math.floor((t.offsetX-this.left)/this.cell),s=e&&n>=0&&n<this.context.sources.size;this.canvas.style.cursor=e?"pointer":"",this.context.actions.tip(s?t:null,s?[`${T(this.context.sources.label(n))}: ${v(e.values[n])}`,this.context.name(e.measured)]:[])}pick(t){let e=this.rowsShown[t]?.measured,n=e?this.context.measured.indexOf(e):-1;n>=0&&n!==this.context.state.map&&this.context.actions.set({other:n})}fillLeftOut(){let t=Object.entries(this.context.payload.left_out??{});this.leftOut.hidden=t.length===0,this.leftOut.replaceChildren(c("summary",{},`${t.length} measures left out`),c("dl",{},...t.flatMap(([e,n])=>[c("dt",{},e),c("dd",{},n)])))}paint(t,e,n){if(this.rowsShown.length<2)return 0;t.text(0,20,S(t,this.headline.textContent??"",16,n),{size:16,weight:600,fill:e.palette.ink});let s=40;this.pair().forEach(({measured:i,values:a},l)=>{t.text(0,s+14,e.name(i),{size:13,fill:e.palette.quiet}),s+=20+this.readings[l].paint(t,e,0,s+20,n,a,C(a,e.own),e.own)+10});let r=this.height(n);return this.painted(t,e,s),this.height(this.element.clientWidth||900),s+r}rows(){let{context:t,rowsShown:e}=this;return[["source",...e.map(n=>t.name(n.measured))],...t.sources.groups.map((n,s)=>[t.sources.label(s),...e.map(r=>r.values[s].toPrecision(3))])]}};function Ee(o,t,e,n=o.entry.layers.length){let s=pn(o),{start:r,stop:i}=t.groups[e],a=new Float64Array(t.of.length),l=0;for(let u=r;u<i;u++)l+=s[n][u];for(let u=r;u<i;u++)a[u]=l>0?1/l:0;let h=Array.from({length:n+1},()=>new Float64Array(t.size));for(let u=r;u<i;u++)h[n][e]+=a[u]*s[n][u];let p=[];for(let u=n-1;u>=0;u--){let d=new Float64Array(a.length),m=new Map;for(let g=0;g<a.length;g++){if(a[g]===0)continue;let f=a[g];o.eachTransition(u,g,(b,w)=>{d[b]+=f*w;let y=t.of[b]*t.size+t.of[g];m.set(y,(m.get(y)??0)+f*w*s[u][b])})}for(let[g,f]of m){let b=Math.floor(g/t.size);h[u][b]+=f,f>1e-4&&p.push({level:u,source:b,target:g%t.size,value:f})}a=d}return{levels:n+1,mass:h,edges:p}}function pn(o){let t=o.sources.labels.length,e=[new Float64Array(t).fill(1)];return o.entry.layers.forEach((n,s)=>{let r=new Float64Array(t).fill(o.entry.joined?.normalise===!1?0:1);if(o.entry.joined?.normalise===!1)for(let i=0;i<t;i++)o.eachTransition(s,i,(a,l)=>{r[i]+=l*e[s][a]});e.push(r)}),e}function Ce(o,t,e){let n=[],s=o.mass.map(()=>[]);for(let i of o.edges)s[i.level].push(i);let r=new Float64Array(o.mass[t].length);r[e]=o.mass[t][e];for(let i=t-1;i>=0;i--){let a=new Float64Array(r.length);for(let l of s[i]){let h=o.mass[i+1][l.target],p=h>0?l.value*r[l.target]/h:0;p>0&&n.push({...l,value:p}),a[l.source]+=p}r=a}r=new Float64Array(r.length),r[e]=o.mass[t][e];for(let i=t;i<o.levels-1;i++){let a=new Float64Array(r.length);for(let l of s[i]){let h=o.mass[i][l.source],p=h>0?l.value*r[l.source]/h:0;p>0&&n.push({...l,value:p}),a[l.target]+=p}r=a}return n}var U=64,Ae=40,Le=92,dn=1200,Ct=class{constructor(){this.words=c("p",{class:"quiet","aria-live":"polite"});this.shown=c("output",{});this.flow=null;this.key="";this.width=0;this.step=54;this.at=null;this.canvas=j({over:t=>this.over(t),leave:()=>this.leave(),choose:()=>this.trace(),step:(t,e)=>this.walk(t,e)}),this.slider=c("input",{type:"range",min:"0",max:"100",step:"1","aria-label":"Smallest share that is drawn",oninput:()=>this.context.actions.set({threshold:mn(Number(this.slider.value))})}),this.controls=c("label",{class:"field"},c("span",{},"Show from"),this.slider,this.shown),this.table=F("Flow",()=>this.rows()),this.element=c("div",{class:"flow-view"},c("div",{class:"bar-line"},this.words,this.controls),this.canvas,this.table)}update(t){this.context=t;let{current:e,state:n,targets:s}=t,r=this.refusal();if(this.canvas.hidden=this.table.hidden=this.controls.hidden=r!==null,r!==null){this.words.textContent=r;return}let i=this.depth(),a=[n.map,n.target,n.unit,n.open,s.size,i].join(" ");a!==this.key&&(this.key=a,this.flow=Ee(e,s,s.of[n.target],i)),this.slider.value=String(fn(n.threshold)),this.shown.textContent=v(n.threshold),this.canvas.setAttribute("aria-label","The flow from the input tokens to the target. Arrow keys move between tokens and layers, Enter traces one."),this.draw(),q(this.table,()=>this.rows())}depth(){let{state:t,current:e}=this.context,n=typeof t.depth=="number"?t.depth:R(t.depth);return n===null?e.entry.layers.length:n+1}refusal(){let{current:t,targets:e}=this.context;return t.entry.reaches_input?`Each layer of ${t.entry.measure} already speaks of the input tokens: there is nothing to follow.`:!t.whole||!t.entry.joined?"A flow needs the maps of every layer for every token of one text. These hold some targets, some layers or two texts.":e.size>dn?"The text is too long to follow: choose words or segments above.":null}edges(){let{node:t,threshold:e}=this.context.state,n=this.flow;return(t&&t[0]<n.levels&&t[1]<this.context.targets.size?Ce(n,t[0],t[1]):n.edges).filter(i=>i.value>=e).sort((i,a)=>i.value-a.value)}x(t){return U+(t+.5)*(this.width-U-12)/this.context.targets.size}y(t){return Ae+(this.flow.levels-1-t)*this.step}draw(){if(this.canvas.hidden||!this.flow)return;this.width=this.element.clientWidth||900,this.step=this.flow.levels>14?34:56;let t=this.y(0)+Le,e=P(this.canvas,this.width,t);this.painted(e,this.context)}painted(t,e){let{palette:n,state:s,targets:r,current:i}=e,a=this.flow,l=this.edges(),h=i.entry.layers;for(let k=0;k<a.levels;k++){let N=k===0?"input":`${k===a.levels-1?"layer ":""}${h[k-1]}`;t.text(U-12,this.y(k)+4,N,{size:12,fill:n.quiet,align:"right"}),t.rect(U,this.y(k),this.width-U-12,.5,n.line)}let p=$(M(n,.78)),u=new Map,d=s.node&&a.mass[s.node[0]]?.[s.node[1]]||1;for(let k of l){let N=k.value/d,W=Math.max(.8,15*N);t.curve(this.x(k.source),this.y(k.level),this.x(k.target),this.y(k.level+1),W,p,Math.min(.9,.22+1.6*N));for(let[O,I]of[[k.level,k.source],[k.level+1,k.target]])u.set(`${O} ${I}`,a.mass[O][I])}let m=a.levels-1,g=r.of[s.target];u.set(`${m} ${g}`,1);for(let[k,N]of u){let[W,O]=k.split(" ").map(Number),I=s.node?.[0]===W&&s.node[1]===O,pt=this.at?.[0]===W&&this.at[1]===O;t.circle(this.x(O),this.y(W),2.5+5.5*Math.sqrt(N),p,I||pt?n.ink:n.paper)}let f=t.width(r.label(g),14,700)/2,b=Math.max(f,Math.min(this.width-f-2,this.x(g)));t.text(b,this.y(m)-16,r.label(g),{size:14,weight:700,fill:n.ink,align:"center"}),this.inputs(t,e,u);let w=s.node?` through ${T(r.label(s.node[1]))} at ${Et(s.node[0],h)}`:"",y=T(r.label(g)),A=s.node?a.mass[s.node[0]]?.[s.node[1]]??0:0;this.words.textContent=w?`${v(A)} of ${y} passes${w}. Click it again to see everything.`:`How ${y} is put together, from the input below to ${m===h.length?"the last layer":`layer ${h[m-1]}`} above. Click a point to trace what passes it.`}inputs(t,e,n){let{palette:s,targets:r}=e,i=(this.width-U)/r.size,a=r.groups.map((h,p)=>p).sort((h,p)=>this.flow.mass[0][p]-this.flow.mass[0][h]),l=[];for(let h of a){let p=this.x(h),u=n.has(`0 ${h}`);if(i<15&&(!u||l.some(m=>Math.abs(m-p)<15)))continue;l.push(p);let d=S(t,r.label(h),12,84);t.text(p+4,this.y(0)+18,d,{size:12,rotate:-50,align:"right",fill:u?s.ink:s.quiet,weight:u?600:400})}}over(t){let e=this.flow,n=e.levels-1-Math.round((t.offsetY-Ae)/this.step),s=Math.round((t.offsetX-U)*this.context.targets.size/(this.width-U-12)-.5),r=n>=0&&n<e.levels&&s>=0&&s<this.context.targets.size;this.at=r?[n,s]:null,this.canvas.style.cursor=r?"pointer":"",this.context.actions.tip(r?t:null,this.sentence()),this.draw()}sentence(){if(!this.at)return[];let[t,e]=this.at,{context:n}=this,s=n.targets.label(n.targets.of[n.state.target]),{layers:r}=n.current.entry;return[`${T(n.targets.label(e))} at ${Et(t,r)}`,`${v(this.flow.mass[t][e])} of ${s} passes here`]}trace(){if(!this.at)return;let{node:t}=this.context.state,e=t&&t[0]===this.at[0]&&t[1]===this.at[1];this.context.actions.set({node:e?null:[...this.at]})}leave(){this.at=null,this.context.actions.tip(null,[]),this.draw()}walk(t,e){let{context:n}=this,[s,r]=this.at??[this.flow.levels-1,n.targets.of[n.state.target]];this.at=[L(s-e,this.flow.levels),L(r+t,n.targets.size)],n.actions.announce(this.sentence().join(", ")),this.draw()}paint(t,e,n){if(!this.flow||this.canvas.hidden)return 0;this.width=n,this.painted(t,e);let s=this.y(0)+Le;return this.draw(),s}rows(){let{context:t}=this,e=t.current.entry.layers;return[["from","source","to","target","share of the target"],...this.edges().reverse().map(n=>[Et(n.level,e),t.targets.label(n.source),Et(n.level+1,e),t.targets.label(n.target),n.value.toPrecision(3)])]}};function Et(o,t){return o===0?"the input":`layer ${t[o-1]}`}function mn(o){return Number((.001*500**(o/100)).toPrecision(2))}function fn(o){return Math.round(Math.log(Math.max(o,.001)/.001)/Math.log(500)*100)}var At=255,Se=new Map;function gn(o){let t=Se.get(o);if(!t){t=new Uint32Array(2*At+1);for(let e=0;e<t.length;e++){let[n,s,r]=M(o,(e-At)/At);t[e]=(255<<24|r<<16|s<<8|n)>>>0}Se.set(o,t)}return t}function nt(o,t,e,n,s){let r=document.createElement("canvas");r.width=n,r.height=e;let i=r.getContext("2d"),a=i.createImageData(n,e),l=new Uint32Array(a.data.buffer),h=gn(o);for(let p=0;p<t.length;p++){let u=Math.max(-1,Math.min(1,t[p]/s));l[p]=h[Math.round((u+1)*At)]}return i.putImageData(a,0,0),r}function ct(o,t,e){let n=1e-12;for(let s=0;s<o.length;s++)e&&Math.floor(s/t)===s%t||(n=Math.max(n,Math.abs(o[s])));return n}var st=58,Lt=24,B=6,bn=400,St=class{constructor(){this.words=c("p",{class:"quiet"});this.tile=64;this.pictures=[];this.key="";this.at=null;this.canvas=j({over:t=>this.over(t),leave:()=>this.pointAt(null,null),choose:()=>this.enter(),step:(t,e)=>this.walk(t,e)}),this.table=F("Heads",()=>this.rows()),this.whole=c("button",{type:"button",onclick:()=>this.context.actions.set({head:null})},"Back to whole layers"),this.element=c("div",{class:"heads-view"},c("div",{class:"bar-line"},this.words,this.whole),this.canvas,this.table)}update(t){this.context=t;let{current:e,measured:n}=t,s=a=>a.heads>0&&a.targets===e.targets&&a.sources===e.sources;this.shown=e.heads?e:n.find(s)??e;let r=this.shown.heads===0;if(this.canvas.hidden=this.table.hidden=r,this.whole.hidden=t.state.head===null,r){let a=e.entry.notes?.find(l=>l.includes("heads are left out"));this.words.textContent=a??`Single heads are not in this page. They are if it is also given lens.measure("${e.entry.measure}", text, per_head=True).`;return}let i=this.shown===e?"":`${t.name(e)} was measured by whole layers. These are the heads of ${t.name(this.shown)}. `;this.words.textContent=`${i}Layers down, heads across. In each, targets down and sources across, shaded by its own largest share. A click opens one.`,this.prepare(),this.canvas.setAttribute("aria-label",`${this.shown.entry.layers.length} layers by ${this.shown.heads} heads. Arrow keys move, Enter opens a head.`),this.draw(),q(this.table,()=>this.rows())}prepare(){let{context:t,shown:e}=this,{targets:n,sources:s,palette:r,state:i}=t,a=[t.measured.indexOf(e),r.dark,n.size,s.size,i.unit].join(" ");if(a===this.key)return;this.key=a;let l=[...new Set(e.held.map(h=>n.of[h]))].sort((h,p)=>h-p).slice(0,bn);this.pictures=e.entry.layers.flatMap((h,p)=>Array.from({length:e.heads},(u,d)=>{let m=new Float32Array(l.length*s.size);l.forEach((f,b)=>m.set(e.incoming({depth:p,head:d},n,f,s),b*s.size));let g=ct(m,s.size,e.square&&l.length===s.size);return nt(r,m,l.length,s.size,g)}))}size(t){let{heads:e,entry:n}=this.shown;return this.tile=Math.max(18,Math.min(132,(t-st)/e-B)),[st+e*(this.tile+B),Lt+n.layers.length*(this.tile+B)]}draw(){if(this.canvas.hidden)return;let[t,e]=this.size(this.element.clientWidth||900);this.painted(P(this.canvas,t,e),this.context)}painted(t,e){let{palette:n,state:s}=e,{tile:r,shown:i}=this,a={size:12,fill:n.quiet};for(let l=0;l<i.heads;l++)t.text(st+l*(r+B)+r/2,Lt-9,l===0?"head 0":String(l),{...a,align:"center"});i.entry.layers.forEach((l,h)=>{let p=Lt+h*(r+B);t.text(st-10,p+r/2+4,h===0?`layer ${l}`:String(l),{...a,align:"right"});for(let u=0;u<i.heads;u++){let d=st+u*(r+B);t.image(this.pictures[h*i.heads+u],d,p,r,r);let g=i===e.current&&s.head===u&&s.depth===h,f=this.at?.[0]===h&&this.at[1]===u;t.rect(d,p,r,r,null,g||f?n.ink:n.line,g?3:f?2:1)}})}over(t){let e=Math.floor((t.offsetX-st)/(this.tile+B)),n=Math.floor((t.offsetY-Lt)/(this.tile+B)),{heads:s,entry:r}=this.shown,i=e>=0&&n>=0&&e<s&&n<r.layers.length;this.pointAt(i?[n,e]:null,t)}pointAt(t,e){this.at=t,this.canvas.style.cursor=t?"pointer":"",this.context.actions.tip(t?e:null,this.sentence()),this.draw()}sentence(){if(!this.at)return[];let[t,e]=this.at,{context:n}=this,s=n.incoming(this.shown,{depth:t,head:e}),r=E(s,n.own).slice(0,3),i=n.targets.label(n.targetGroup);return[`Layer ${this.shown.entry.layers[t]}, head ${e}`,...r.map(({group:a,value:l})=>`${T(n.sources.label(a))}: ${v(l)} of ${T(i)}`)]}enter(){if(!this.at)return;let t=this.context.measured.indexOf(this.shown);this.context.actions.set({map:t,depth:this.at[0],head:this.at[1],view:"map"})}walk(t,e){let[n,s]=this.at??[0,-1],{entry:r,heads:i}=this.shown;this.at=[L(n+e,r.layers.length),L(s+t,i)],this.context.actions.announce(this.sentence().join(", ")),this.draw()}paint(t,e,n){if(!this.shown.heads)return 0;this.prepare();let[,s]=this.size(n);return this.painted(t,e),s}rows(){let{context:t,shown:e}=this,n=t.targets.label(t.targetGroup),s=[["layer","head","target","largest source","share"]];return e.entry.layers.forEach((r,i)=>{for(let a=0;a<e.heads;a++){let l=t.incoming(e,{depth:i,head:a}),h=E(l,t.own)[0];s.push([String(r),String(a),n,h?t.sources.label(h.group):"",C(l,t.own).toPrecision(3)])}}),s}};var vn=2500,x=108,Xt=10,Pt=class{constructor(){this.spacer=c("div",{class:"spacer"});this.words=c("p",{class:"quiet"});this.values=new Float32Array;this.picture=null;this.key="";this.cell=16;this.zoom=1;this.at=null;this.canvas=j({over:e=>this.over(e),leave:()=>this.moved(null,null),choose:()=>this.choose(),step:(e,n)=>this.walk(e,n)}),this.scroller=c("div",{class:"scroller",onscroll:()=>this.draw()},this.canvas,this.spacer),this.table=F("Map",()=>this.rows());let t=c("label",{class:"field"},c("span",{},"Zoom"),c("input",{type:"range",min:"1",max:"12",step:"0.5",value:"1",oninput:e=>{this.zoom=Number(e.target.value),this.layout()}}));this.element=c("div",{class:"map-view"},c("div",{class:"bar-line"},this.words,t),this.scroller,this.table)}update(t){this.context=t;let{targets:e,sources:n,current:s,state:r}=t,i=this.held();if(Math.max(i.length,n.size)>vn){this.words.textContent=`${i.length} × ${n.size} cells are too many to see: choose words or segments above.`,this.scroller.hidden=!0;return}this.scroller.hidden=!1;let a=[r.map,r.depth,r.head,t.palette.dark,e.size,n.size,r.unit,r.open].join(" ");if(a!==this.key){this.key=a;let l=new Float32Array(i.length*n.size);i.forEach((u,d)=>l.set(s.incoming(t.choice,e,u,n),d*n.size)),this.values=l;let h=ct(l,n.size,s.square&&i.length===n.size);this.picture=nt(t.palette,l,i.length,n.size,h);let p=t.palette.dark?"brightest":"darkest";this.words.textContent=`Targets down, sources across. The ${p} cell off the diagonal is ${v(h)} of its target.`}this.canvas.setAttribute("aria-label",`Map of ${i.length} targets by ${n.size} sources. Arrow keys move, Enter chooses the target.`),this.layout(),q(this.table,()=>this.rows())}held(){let{targets:t,current:e}=this.context;return[...new Set(e.held.map(s=>t.of[s]))].sort((s,r)=>s-r)}layout(){if(this.scroller.hidden)return;let{sources:t}=this.context,e=this.held().length,n=Math.max(200,this.scroller.clientWidth||900)-x-16,s=Math.max(240,window.innerHeight*.7)-x,r=Math.min(44,n/t.size,Math.max(s/e,7));this.cell=Math.max(r,1)*this.zoom;let[i,a]=[t.size*this.cell+x+Xt,e*this.cell+x+Xt],l=Math.max(320,window.innerHeight*.78);this.scroller.style.height=`${Math.min(a+18,l)}px`,this.spacer.style.width=`${i}px`,this.spacer.style.height=`${a}px`,this.draw()}draw(){let t=this.scroller.clientWidth,e=this.scroller.clientHeight;if(!t||!this.picture)return;let n=P(this.canvas,t,e);this.painted(n,this.context,this.cell,this.scroller.scrollLeft,this.scroller.scrollTop,t,e)}painted(t,e,n,s,r,i,a){let{palette:l,sources:h,targets:p}=e,u=this.held();t.image(this.picture,x-s,x-r,h.size*n,u.length*n);let d=u.indexOf(e.targets.of[e.state.target]);if(d>=0&&t.rect(x-s,x-r+d*n,h.size*n,Math.max(n,2),null,l.ink,1.5),this.at){let[g,f]=this.at;t.rect(x-s+f*n,x-r+g*n,Math.max(n,2),Math.max(n,2),null,l.ink,2)}t.rect(0,0,x-2,a,l.paper),t.rect(0,0,i,x-2,l.paper);let m=Math.max(1,Math.ceil(12/n));this.names(t,p,u,m,n,(g,f,b)=>{let w=x-r+(g+.5)*n;w>x-4&&w<a&&t.text(x-8,w+4,S(t,f,12,x-14),{size:12,align:"right",fill:b?l.ink:l.quiet,weight:b?700:400})},this.at?.[0]??-1,d),this.names(t,h,h.groups.map((g,f)=>f),m,n,(g,f,b)=>{let w=x-s+(g+.5)*n;w>x-4&&w<i&&t.text(w+4,x-8,S(t,f,12,x+6),{size:12,rotate:-60,fill:b?l.ink:l.quiet,weight:b?700:400})},this.at?.[1]??-1,-1),t.rect(0,0,x-14,x-30,l.paper)}names(t,e,n,s,r,i,a,l){n.forEach((h,p)=>{let u=a>=0&&Math.abs(p-a)*r<12&&p!==a;(p===a||p===l||p%s===0&&!u)&&i(p,e.label(h),p===a||p===l)})}over(t){let e=Math.floor((t.offsetX-x+this.scroller.scrollLeft)/this.cell),n=Math.floor((t.offsetY-x+this.scroller.scrollTop)/this.cell),s=t.offsetX>=x&&t.offsetY>=x&&n<this.held().length&&e<this.context.sources.size;this.moved(s?[n,e]:null,t)}moved(t,e){this.at=t;let n=this.sentence();this.context.actions.tip(t?e:null,n),this.canvas.style.cursor=t?"pointer":"",this.draw()}sentence(){if(!this.at)return[];let{context:t}=this,[e,n]=this.at,s=this.held()[e],r=this.values[e*t.sources.size+n],i=t.current.total(t.choice,t.targets.groups[s].start),a=[`${T(t.sources.label(n))} → ${T(t.targets.label(s))}`,v(r)];return i!==null&&t.state.unit==="tokens"&&a.push(`score ${(r*i).toPrecision(3)}`),a}choose(){if(!this.at)return;let{start:t,stop:e}=this.context.targets.groups[this.held()[this.at[0]]];for(let n=t;n<e;n++)if(this.context.current.holds(n))return this.context.actions.set({target:n,node:null})}walk(t,e){let[n,s]=this.at??[0,-1];this.at=[L(n+e,this.held().length),L(s+t,this.context.sources.size)],this.context.actions.announce(this.sentence().join(", ")),this.draw()}paint(t,e,n){let{sources:s}=e,r=this.held().length,i=Math.min(28,Math.max(1,(n-x)/s.size)),a=this.at;this.at=null;let l=r*i+x;if(s.size*r<=4e3){this.painted(t,e,i,0,0,n,l+2),this.cells(t,e,i,r);let h=this.held().indexOf(e.targets.of[e.state.target]),[p,u]=[x+h*i,s.size*i];h>=0&&t.rect(x,p,u,i,null,e.palette.ink,1.5)}else this.painted(t,e,i,0,0,n,l+2);return this.at=a,l+Xt}cells(t,e,n,s){let r=e.sources.size,i=ct(this.values,r,e.current.square&&s===r);for(let a=0;a<this.values.length;a++){let l=Math.max(-1,Math.min(1,this.values[a]/i));t.rect(x+a%r*n,x+Math.floor(a/r)*n,n-.5,n-.5,$(M(e.palette,l)))}}rows(){let{context:t}=this,e=t.sources.size;return[["target",...t.sources.groups.map((n,s)=>t.sources.label(s))],...this.held().map((n,s)=>[t.targets.label(n),...Array.from(this.values.subarray(s*e,(s+1)*e),r=>r.toPrecision(3))])]}};function Pe(o,t){let e=Object.entries(o.evaluations),[n,...s]=o.verdict.split(`
`),r=c("tr",{},c("th",{scope:"col"},"measure"),c("th",{scope:"col"},"mean rank"),...e.map(([a,{direction:l}])=>c("th",{scope:"col"},a.replaceAll("_"," "),c("small",{},l==="neither"?"":`${l} is better`)))),i=o.measures.map(({measure:a,mean_rank:l})=>c("tr",{class:a==="random"?"baseline":null},c("th",{scope:"row"},a),c("td",{},zt(l)),...e.map(([,{measures:h}])=>wn(h[a],Object.values(h),t,a==="random"))));return c("div",{class:"ranking-view"},c("h1",{class:"answer"},n??""),...s.map(a=>c("p",{},a)),c("p",{class:"quiet hint"},`${o.texts} texts. Dots lie between the lowest and the highest value of the column, with their 95 % interval. Bold is best, grey italics are not better than random numbers.`),c("div",{class:"wide",tabindex:"0",role:"region","aria-label":"Ranked measures"},c("table",{class:"ranks"},c("thead",{},r),c("tbody",{},...i))),c("h2",{},"What was asked"),c("dl",{},...e.flatMap(([a,{summary:l}])=>[c("dt",{},a.replaceAll("_"," ")),c("dd",{},l)])))}function zt(o){return o==null?"–":o.toFixed(2).replace("-","−")}function wn(o,t,e,n){if(!o||o.value===null)return c("td",{},"–");let s=t.flatMap(m=>[m.low,m.high,m.value]).filter(m=>m!==null),[r,i]=[Math.min(...s),Math.max(...s)],a=m=>i>r?(m-r)/(i-r)*100:50,l=c("span",{class:"interval"});l.style.left=`${a(o.low??o.value)}%`,l.style.width=`${a(o.high??o.value)-a(o.low??o.value)}%`;let h=c("span",{class:"dot"});h.style.left=`${a(o.value)}%`;let p=n||o.not_better_than_random;h.style.backgroundColor=p?e.quiet:$(M(e,.75));let u=o.is_best?"best":o.not_better_than_random?"luck":null,d=o.low===null?"":`${zt(o.low)} to ${zt(o.high)}`;return c("td",{class:u,title:d},zt(o.value),c("span",{class:"scale","aria-hidden":"true"},l,h))}var ze=3;function Oe(o){return[yn(o),kn(o)].filter(t=>t!==null)}function xn(o){let{current:t,state:e}=o,{targets:n}=o,s=o.fine(t.sources),r=n.of[e.target],i=t.square?s.of[e.target]:-1,a=new Map;return t.entry.layers.forEach((l,h)=>{let p=t.incoming({depth:h,head:e.head},n,r,s);for(let u of E(p,i).slice(0,ze))Math.abs(u.value)>Math.abs(a.get(u.group)?.value??0)&&a.set(u.group,{label:s.label(u.group),layer:l,value:u.value})}),[...a.values()].sort((l,h)=>Math.abs(h.value)-Math.abs(l.value)).slice(0,ze)}function yn(o){let{entry:t}=o.current,e=t.layers.length>1?xn(o):[];if(!e.length)return null;let n=e.map(({label:s,layer:r,value:i})=>[c("b",{},z(s)),` (${v(i)} ${t.reaches_input?"up to":"in"} layer ${r})`]);return c("p",{},"Layer by layer, most came from ",...bt(n),".")}function kn(o){let t=yt(o),e=kt(o,t),n=t.find(d=>d.measured===o.current);if(!e||!n)return null;let s=ht(o,n,e),r=t.length-1,i=c("b",{},o.name(e.measured)),a=` (rank correlation ${s.toFixed(2).replace("-","−")})`,l=r===1?[i,` ${Mt(s).replace("agree","agrees")}${a}`]:[`Of ${r} other measures `,i,` agrees least${a}`],h=tt([n.values,e.values],o.own)[0];h&&l.push(...Mn(o,h.group,n.values,e.values));let p=o.measured.indexOf(e.measured),u=()=>o.actions.set({view:"compare",other:p});return c("p",{},...l,". ",c("button",{type:"button",class:"link",onclick:u},"Compare"))}function Mn(o,t,e,n){let s=c("b",{},z(o.sources.label(t))),r=` ${v(n[t])} instead of ${v(e[t])}`;return["; it differs most on ",s,`:${r}`]}var H=64,$n=7,Ot=o=>o.depth==="all"||o.depth==="mean",Ht=class{constructor(){this.name=c("h2",{});this.other=c("button",{type:"button",class:"turn",onclick:()=>this.turn()});this.strips=[];this.rowHeight=18;this.cell=1;this.canvas=c("canvas",{tabindex:"0",role:"img",onmousemove:t=>this.over(t),onmouseleave:()=>this.context.actions.tip(null,[]),onclick:t=>this.choose(this.hit(t)?.strip??-1),onkeydown:t=>this.key(t)}),this.table=F("Layers",()=>this.rows()),this.element=c("section",{class:"layers","aria-label":"Layer by layer"},c("div",{class:"layers-head"},this.name,this.other),this.canvas,this.table)}update(t){this.context=t;let{current:e}=t;if(this.element.hidden=e.entry.layers.length<2,this.element.hidden)return;let n=this.joined(),s=n?[...e.upTo]:e.entry.layers.map((h,p)=>p);s.push(...this.summaries(n)),this.strips=s.map(h=>({depth:h,name:h==="all"||h==="mean"?this.summaryName(h):String(e.entry.layers[R(h)??Number(h)]),values:t.incoming(e,{depth:h,head:typeof h=="number"?t.state.head:null})}));let r=this.element.clientWidth||640,i=this.height(r);this.draw(P(this.canvas,r,i),r);let a=t.targets.label(t.targetGroup),l=n?" has taken up to each layer":" took in each layer";this.name.replaceChildren("What ",c("b",{},z(a)),l),this.other.hidden=e.upTo.length===0,this.other.textContent=n?"Each layer by itself":"Up to each layer",this.canvas.setAttribute("aria-label",`What ${T(a)}${l}, as a heat map: ${this.strips.length} rows, ${t.sources.size} columns. Arrow keys up and down choose a layer.`),q(this.table,()=>this.rows())}summaryName(t){let e=this.context.current.entry.joined?.how.replace(/\(.*/,"")??"";return t==="mean"?"mean":e||"all"}summaries(t){let{current:e,state:n}=this.context,s=["mean","all"].filter(i=>e.depths.includes(i)),r=t?"all":s[0];return s.filter(i=>i===r||i===n.depth)}joined(){let{state:t,current:e}=this.context;return typeof t.depth=="number"||!e.upTo.length?!1:t.rows==="upto"||R(t.depth)!==null}turn(){let{state:t,actions:e}=this.context,n=this.joined(),{depth:s}=t,r=typeof s=="number"?s:R(s),i=this.context.current.entry.layers.length-1,a=r===null||r===i?"all":`to${r}`;e.set({rows:n?"each":"upto",head:null,depth:n?r??this.context.current.defaultDepth:a})}height(t){let e=this.strips.length;return this.rowHeight=e>40?7:e>16?11:18,this.cell=(t-H)/this.context.sources.size,this.top(e)+this.labels(t)}top(t){let e=this.strips.findIndex(Ot);return t*this.rowHeight+(e>=0&&t>=e?$n:0)}labels(t){return this.cell<13?this.context.current.sources.seconds?18:4:this.slanted(t)?74:20}slanted(t){let e=new J(this.canvas.getContext("2d")),n=(t-H)/this.context.sources.size;return this.context.sources.groups.some((s,r)=>e.width(this.context.sources.label(r),12)>n-4)}draw(t,e,n=0){let{context:s,strips:r,rowHeight:i}=this,{palette:a,own:l,state:h}=s,p=r.filter(d=>!Ot(d)),u=Math.max(1e-12,...p.map(d=>C(d.values,l)));r.forEach((d,m)=>{let g=n+this.top(m),f=d.depth===h.depth,b=Ot(d)?Math.max(1e-12,C(d.values,l)):u,w=i>=13?1:i>=10?2:4;(m%w===0||f||Ot(d))&&t.text(H-10,g+i/2+4,`${m===0?this.joined()?"up to ":"layer ":""}${d.name}`,{size:12,fill:f?a.ink:a.quiet,weight:f?700:400,align:"right"}),this.cells(t,d.values,l,b,g),f&&t.rect(H-1,g-1,e-H+1,i+.5,null,a.ink,1.5,3)}),this.drawColumns(t,e,n)}cells(t,e,n,s,r){let{context:i,cell:a,rowHeight:l}=this,h=m=>Math.max(-1,Math.min(1,m/s));if(a>=6){e.forEach((m,g)=>{let f=$(M(i.palette,h(m)));t.rect(H+g*a,r,a-1,l-1.5,f)});return}let p=Math.max(1,Math.round(1.5/a)),u=new Float32Array(Math.ceil(e.length/p));e.forEach((m,g)=>{let f=Math.floor(g/p);g!==n&&Math.abs(m)>Math.abs(u[f])&&(u[f]=m)});let d=nt(i.palette,u,1,u.length,s);t.image(d,H,r,a*p*u.length,l-1.5)}drawColumns(t,e,n){let{context:s,cell:r}=this,{palette:i,own:a,sources:l}=s,h=n+this.top(this.strips.length)-1,p=s.current.sources.seconds;if(p){let d=Zt(p*l.size);for(let m=0;m<=p*l.size;m+=d)t.text(H+m/p*r,h+14,`${Number(m.toFixed(2))} s`,{size:11,fill:i.quiet,align:m+d>p*l.size?"right":m?"center":"left"});return}if(a>=0&&r>=3&&t.rect(H+a*r-.5,n-.5,r,h-n+.5,null,i.ink,1.5,2),r<13)return;let u=this.slanted(e);l.groups.forEach((d,m)=>{let g=H+(m+.5)*r,f={size:12,fill:m===a?i.ink:i.quiet,weight:m===a?700:400},b=S(t,l.label(m),12,u?88:r);u?t.text(g+4,h+12,b,{...f,align:"right",rotate:-45}):t.text(g,h+15,b,{...f,align:"center"})})}hit(t){let e=this.strips.findIndex((s,r)=>t.offsetY>=this.top(r)&&t.offsetY<this.top(r)+this.rowHeight),n=Math.floor((t.offsetX-H)/this.cell);return e<0?null:{strip:e,group:n>=0&&n<this.context.sources.size?n:-1}}over(t){let e=this.hit(t);if(this.canvas.style.cursor=e?"pointer":"",!e||e.group<0)return this.context.actions.tip(null,[]);let{strip:n,group:s}=e,{context:r}=this,i=this.strips[n].values[s],a=r.targets.label(r.targetGroup);r.actions.tip(t,[`${T(r.sources.label(s))}: ${v(i)} of ${T(a)}`,r.current.depthName(this.strips[n].depth)])}choose(t){let e=this.strips[t]?.depth;e!==void 0&&this.context.actions.set({depth:e,head:typeof e=="number"?this.context.state.head:null})}key(t){let e={ArrowUp:-1,ArrowDown:1}[t.key];if(!e)return;t.preventDefault();let n=this.strips.findIndex(r=>r.depth===this.context.state.depth),s=Math.max(0,Math.min(this.strips.length-1,n+e));this.choose(s),this.context.actions.announce(this.context.current.depthName(this.strips[s].depth))}paint(t,e,n,s){if(this.element.hidden)return 0;let r=this.height(s);return this.draw(t,s,n),r}rows(){let{sources:t}=this.context;return[["source",...this.strips.map(e=>this.context.current.depthName(e.depth))],...t.groups.map((e,n)=>[t.label(n),...this.strips.map(s=>s.values[n].toPrecision(3))])]}};function Zt(o){let t=o/6,e=10**Math.floor(Math.log10(t));return([1,2,5,10].find(n=>n*e>=t)??10)*e}var He=420,Nt=class{constructor(){this.picture=new Image;this.grey=null;this.context=null;this.values=[];this.scale=0;this.at=null;this.canvas=j({over:t=>this.pointAt(this.patch(t),t),leave:()=>this.pointAt(null,null),choose:()=>this.choose(),step:(t,e)=>this.walk(t,e)}),this.canvas.setAttribute("aria-label","The picture, its patches shaded by their share; the ranked list has the numbers. Arrow keys move, Enter chooses a patch."),this.element=c("figure",{class:"picture"},this.canvas),this.picture.addEventListener("load",()=>{this.grey=Tn(this.picture),this.draw()})}show(t,e,n){let{image:s}=t.payload;s&&(Object.assign(this,{context:t,values:e,scale:n}),this.picture.src!==s.src&&(this.picture.src=s.src),this.draw())}size(t){let e=(this.picture.naturalHeight||1)/(this.picture.naturalWidth||1),n=Math.min(t,He,He/e);return[n,n*e]}draw(){if(!this.context||!this.picture.naturalWidth)return;let[t,e]=this.size(this.element.clientWidth||420);this.painted(P(this.canvas,t,e),this.context,0,0,t,e)}painted(t,e,n,s,r,i){let{rows:a,columns:l,first:h}=e.payload.image,{sources:p,own:u}=e;t.image(this.grey??this.picture,n,s,r,i,!0);let[d,m]=[r/l,i/a];for(let g=0;g<a*l;g++){let f=p.of[h+g];if(f===void 0)break;let b=this.scale>0?this.values[f]/this.scale:0,[w,y]=[n+g%l*d,s+Math.floor(g/l)*m],A=Math.min(.85,Math.abs(b)*.85),k=$(M(rt,b<0?-.75:.75)).replace(")",`, ${A})`);t.rect(w,y,d,m,k),f===u?t.rect(w+1,y+1,d-2,m-2,null,"#ffffff",3):h+g===this.at&&t.rect(w,y,d,m,null,"#ffffff",1.5)}}patch(t){let{context:e}=this;if(!e)return null;let{rows:n,columns:s,first:r}=e.payload.image,i=Math.floor(t.offsetX/this.canvas.clientWidth*s),a=Math.floor(t.offsetY/this.canvas.clientHeight*n);return r+a*s+i}pointAt(t,e){this.at=t,this.context?.actions.tip(e,this.words()),this.draw()}words(){let{context:t,at:e}=this;if(!t||e===null)return[];let{columns:n,first:s}=t.payload.image,r=t.sources.of[e]??0;return[`Patch in ${`row ${Math.floor((e-s)/n)}, column ${(e-s)%n}`}`,`${v(this.values[r]??0)} of the target`]}choose(){let{context:t,at:e}=this;t&&e!==null&&t.current.square&&t.current.holds(e)&&t.actions.set({target:e,node:null})}walk(t,e){let{context:n}=this;if(!n)return;let{rows:s,columns:r,first:i}=n.payload.image,a=this.at===null?0:this.at-i,l=L(a%r+(this.at===null?0:t),r),h=L(Math.floor(a/r)+(this.at===null?0:e),s);this.pointAt(i+h*r+l,null),n.actions.announce(this.words().join(", "))}paint(t,e,n,s,r,i,a){Object.assign(this,{values:i,scale:a});let[l,h]=this.size(r);return this.painted(t,e,n,s,l,h),h}};function Tn(o){let t=document.createElement("canvas");t.width=o.naturalWidth,t.height=o.naturalHeight;let e=t.getContext("2d");e.drawImage(o,0,0);let n=e.getImageData(0,0,t.width,t.height);for(let s=0;s<n.data.length;s+=4){let[r,i,a]=n.data.subarray(s,s+3);n.data.fill(.3*r+.59*i+.11*a,s,s+3)}return e.putImageData(n,0,0),t}var V=120,Ne=22,Rt=class{constructor(){this.context=null;this.values=[];this.scale=0;this.at=null;this.canvas=j({over:t=>this.over(t),leave:()=>this.pointAt(null,null),choose:()=>this.choose(),step:t=>this.walk(t)}),this.canvas.setAttribute("aria-label","The share of each frame over time; the ranked list has the numbers. Arrow keys move, Enter chooses a frame."),this.element=c("figure",{class:"strip"},this.canvas)}show(t,e,n){t.current.sources.seconds&&(Object.assign(this,{context:t,values:e,scale:n}),this.draw())}draw(){if(!this.context)return;let t=this.element.clientWidth||640;this.painted(P(this.canvas,t,V+Ne),this.context,0,0,t)}painted(t,e,n,s,r){let{palette:i}=e,a=e.current.sources.seconds,l=r/this.values.length;for(let u=0;u<this.values.length;u++){let d=this.scale>0?this.values[u]/this.scale:0,m=Math.max(1,Math.abs(d)*V),g=$(M(i,.25*Math.sign(d||1)+.75*d)),f=Math.max(l-(l>4?1:0),.7);u===e.own?t.rect(n+u*l-1,s,f+2,V,null,i.ink):u===this.at&&t.rect(n+u*l,s,f,V,i.band),u!==e.own&&t.rect(n+u*l,s+V-m,f,m,g)}t.rect(n,s+V,r,1,i.quiet);let h=a*this.values.length,p=Zt(h);for(let u=0;u<=h+1e-9;u+=p)t.text(n+u/h*r,s+V+16,`${Number(u.toFixed(2))} s`,{size:12,fill:i.quiet,align:u===0?"left":u+p>h?"right":"center"})}over(t){let e=Math.floor(t.offsetX/this.canvas.clientWidth*this.values.length);this.pointAt(L(e,this.values.length),t)}pointAt(t,e){this.at=t,this.context?.actions.tip(e,this.words()),this.draw()}words(){let{context:t,at:e}=this;return!t||e===null?[]:[t.sources.label(e),`${v(this.values[e])} of the target`]}choose(){let{context:t,at:e}=this;if(!t||e===null||!t.current.square)return;let{start:n}=t.sources.groups[e];t.current.holds(n)&&t.actions.set({target:n,node:null})}walk(t){this.pointAt(L(this.at===null?0:this.at+t,this.values.length),null),this.context?.actions.announce(this.words().join(", "))}paint(t,e,n,s,r,i,a){return Object.assign(this,{values:i,scale:a}),this.painted(t,e,n,s,r),V+Ne}};var jt=12,En=6,Ft=class{constructor(){this.answer=c("h1",{class:"answer"});this.facts=c("div",{class:"facts"});this.legend=c("p",{class:"legend"});this.picture=new Nt;this.strip=new Rt;this.sourceName=c("h2",{},"Source");this.targetName=c("h2",{},"Target");this.layers=new Ht;this.inList=c("table",{class:"ranked"});this.outList=c("table",{class:"ranked"});this.outName=c("h2",{});this.inName=c("h2",{});this.rest=c("p",{class:"quiet"});this.pointedSource=null;this.sourceText=new K("The text: choose a target",{choose:t=>this.choose(t,!0),point:(t,e)=>this.point(t,e,!0),close:t=>this.close(t)}),this.targetText=new K("The target side: choose a target",{choose:t=>this.choose(t,!1),point:(t,e)=>this.point(t,e,!1),close:t=>this.close(t)},!0),this.element=c("div",{class:"text-view"},this.answer,this.facts,c("div",{class:"columns"},c("div",{class:"main"},this.targetName,this.targetText.element,this.sourceName,this.picture.element,this.strip.element,this.sourceText.element,this.legend,this.layers.element),c("aside",{class:"side","aria-label":"Ranked sources"},this.inName,this.inList,this.rest,this.outName,this.outList)))}choose(t,e){let{context:n}=this,s=e?n.sources:n.targets,{start:r,stop:i,segment:a}=s.groups[t];if(a!==null){n.actions.set({open:[...n.state.open,a]});return}if(!(e&&!n.current.square)){for(let l=r;l<i;l++)if(n.current.holds(l)){n.actions.set({target:l,node:null}),n.actions.announce(this.sentence());return}}}find(t){let{segment:e,start:n}=this.context.sources.groups[t];e!==null&&this.choose(t,!0),this.sourceText.find(this.context.sources.of[n])}close(t){let e=this.context.state.open.filter(n=>n!==t);this.context.actions.set({open:e})}point(t,e,n){let{context:s}=this,r=!s.current.square,i=this.pointedSource;if(this.pointedSource=r&&n?t:null,this.pointedSource!==i&&this.shaded(),t===null){s.actions.tip(null,[]),s.actions.point(null);return}let a=n?s.sources:s.targets,{start:l,stop:h}=a.groups[t],p=!n||s.current.square,u=-1;for(let m=l;m<h&&u<0;m++)p&&s.current.holds(m)&&(u=m);let d=this.words(t,n);e?s.actions.tip(e,d):(n?this.sourceText:this.targetText).describe(t,d.join(". ")),s.actions.point(u<0?null:u)}words(t,e){let{context:n}=this,s=n.preview;n.preview=null;let r=(e?n.sources:n.targets).label(t),i=n.targets.label(n.targetGroup),a=[r];if(e){let l=n.incoming(),h=E(l,n.own).findIndex(p=>p.group===t);t===n.own?a.push(n.ownShare?`the target; ${v(l[t])} of it is its own`:"the target"):l[t]?a.push(`${v(l[t])} of ${i}${h>=0?`, number ${h+1}`:""}`):a.push(`nothing of it is in ${i}`)}return n.preview=s,a}update(t){this.context=t;let{current:e,sources:n,targets:s,payload:r}=t,i=!e.square;this.picture.element.hidden=!r.image;let a=!!e.sources.seconds;this.strip.element.hidden=!a,this.targetName.hidden=!i,this.sourceName.hidden=!i||!!e.sources.segments?.[0]?.[2],this.targetText.element.hidden=!i,this.sourceText.show(n,t),this.sourceText.element.hidden=a||this.sourceText.isEmpty,i&&this.targetText.show(s,t),this.shaded(),this.layers.update(t)}pointed(t){this.context=t,this.shaded(),this.layers.update(t)}shaded(){let{context:t}=this,{own:e,sources:n,targets:s,targetGroup:r,current:i}=t,a=t.incoming(),l=C(a,e),h=t.preview===null;this.sourceText.shadeBy(t,a,l,e,h),i.square||this.shadeTargets(r,h),this.picture.show(t,a,l),this.strip.show(t,a,l);let p=E(a,e);h&&(this.answer.replaceChildren(this.headline()),this.facts.replaceChildren(...Oe(t))),this.inList.classList.toggle("long",t.state.unit==="segments"||!!t.payload.image),this.fillLegend(l);let u=s.label(r);this.inName.replaceChildren("Where ",c("b",{},z(u))," comes from");let d=e>=0&&a[e]?[{group:e,value:a[e]}]:[];Re(this.inList,t,{order:p.slice(0,jt),itself:d,scale:l,label:b=>n.label(b),find:b=>this.find(b)});let m=Array.from(a).reduce((b,w)=>b+Math.abs(w),0),g=p.slice(jt).reduce((b,w)=>b+Math.abs(w.value),0),f=[];p.length>jt&&f.push(`${p.length-jt} more sources: ${v(g)}`),!i.complete&&m<.9995&&f.push(`small shares left out of this page: ${v(1-m)}`),this.rest.textContent=f.join(" · "),this.goesTo(u)}shadeTargets(t,e){let{context:n,pointedSource:s}=this,{current:r,targets:i,sources:a}=n,l=s===null?new Float64Array(i.size):r.outgoing(n.choice,i,a,s),h=s===null?t:-1;this.targetText.shadeBy(n,l,C(l,-1),h,e)}goesTo(t){let{context:e}=this,{current:n,targets:s,targetGroup:r}=e,i=n.square&&n.held.length>1;if(this.outName.hidden=this.outList.hidden=!i,!i)return;let a=e.outgoing();this.outName.replaceChildren("Where ",c("b",{},z(t))," goes");let l=E(a,r).slice(0,En);this.outName.hidden=this.outList.hidden=l.length===0,Re(this.outList,e,{order:l,itself:[],scale:C(a,r),label:h=>s.label(h),find:h=>this.find(h)})}fillLegend(t){let{palette:e,current:n,payload:s}=this.context,r=s.image?"patch":n.sources.seconds?"frame":"word",i=r==="word"?"point at a word to follow it, click to keep it":n.square?`click a ${r} to follow it`:"point for numbers",a=c("span",{class:"ramp"}),l=n.entry.signed?-5:0,h=Array.from({length:6-l},(p,u)=>$(M(e,(u+l)/5)));a.style.backgroundImage=`linear-gradient(to right, ${h.join(", ")})`,this.legend.replaceChildren(c("span",{class:"outlined"},"target"),c("span",{},n.entry.signed?v(-t):"0 %"),a,c("span",{},v(t)),c("span",{class:"quiet"},`share of the target · ${i}`))}most(){let{context:t}=this,{current:e}=t,{targets:n}=t,s=t.fine(e.sources),r=n.of[t.state.target],i=e.incoming(t.choice,n,r,s),a=e.square?s.of[t.state.target]:-1,l=E(i,a).slice(0,3);return{target:n.label(r),top:l.map(h=>[s.label(h.group),h.value]),own:a<0||!t.ownShare?0:i[a]}}headline(){let{target:t,top:e,own:n}=this.most(),s=e.map(([r,i])=>[c("b",{},z(r)),` ${v(i)}`]);return c("span",{},c("b",{class:"outlined"},z(t)),e.length?" took most from ":" took nothing from other tokens",...bt(s),n?c("span",{class:"quiet"},` · ${v(n)} is its own`):null,c("span",{class:"quiet"},` · ${this.reading()}`))}sentence(){let{target:t,top:e}=this.most();return`${T(t)} took most from ${$t(e)} (${this.reading()})`}reading(){let{current:t,state:e}=this.context,n=t.depthName(e.depth),s=e.head===null?"":`, head ${e.head}`;return n[0].toLowerCase()+n.slice(1)+s}paint(t,e,n){let{palette:s,own:r,current:i}=e,a=e.incoming(),l=C(a,r);t.text(0,22,S(t,this.sentence(),17,n),{size:17,fill:s.ink,weight:600});let h=40;return i.square||(h+=this.targetText.paint(t,e,0,h,n,new Float64Array(e.targets.size),1,e.targetGroup)+12),e.payload.image&&(h+=this.picture.paint(t,e,0,h,n,a,l)+12),i.sources.seconds?h+=this.strip.paint(t,e,0,h,n,a,l)+12:this.sourceText.isEmpty||(h+=this.sourceText.paint(t,e,0,h,n,a,l,r)+12),h+this.layers.paint(t,0,h,n)+8}rows(t){let e=t.incoming(),n=t.targets.label(t.targetGroup);return[["target","source","position","share","rank"],...E(e,-1).map(({group:s,value:r},i)=>[n,t.sources.label(s),String(t.sources.groups[s].start),r.toPrecision(4),String(i+1)])]}};function Re(o,t,e){let{order:n,itself:s,scale:r,label:i,find:a}=e,l=(m,g,f)=>c("tr",{class:f?"own":null},c("th",{scope:"row",dir:"auto"},g),c("td",{class:"bars"},Yt(t,m,r,f?t.palette.quiet:void 0)),c("td",{},v(m))),[h,p]=["token","share"].map(m=>c("th",{scope:"col"},m)),u=m=>c("button",{type:"button",class:"source",title:`Find ${i(m)} in the text`,onclick:()=>a(m)},i(m)),d=n.map(m=>l(m.value,u(m.group),!1));d.push(...s.map(m=>l(m.value,"itself",!0))),o.replaceChildren(c("thead",{class:"unseen"},c("tr",{},h,c("td"),p)),c("tbody",{},...d))}var je={text:"Text",map:"Map",heads:"Heads",flow:"Flow",compare:"Compare"},Cn=1500,ut=class{constructor(t,e,n,s){this.root=t;this.linked=s;this.bar=c("header",{class:"bar-top"});this.tabs=c("div",{class:"tabs",role:"tablist","aria-label":"Views"});this.panel=c("div",{class:"panel",role:"tabpanel",tabindex:"-1"});this.notice=c("div",{class:"notice",role:"status"});this.foot=c("footer",{});this.tip=c("div",{class:"tip","aria-hidden":"true"});this.said=c("div",{class:"unseen","aria-live":"polite"});this.dark=window.matchMedia("(prefers-color-scheme: dark)");this.frame=0;this.printing=!1;t.classList.add("mixlens");let r=n&&he(n,e,i=>this.show(i));t.replaceChildren(...r?[r]:[],this.bar,this.tabs,this.notice,this.panel,this.foot,this.tip,this.said),this.dark.addEventListener("change",()=>this.update()),window.addEventListener("beforeprint",()=>this.print(!0)),window.addEventListener("afterprint",()=>this.print(!1)),new ResizeObserver(()=>this.soon()).observe(t),s&&window.addEventListener("hashchange",()=>{this.context.measured.length&&location.hash.slice(1)!==Bt(this.context.state,this.first)&&(this.context.state=this.sound(Vt(location.hash,this.first)),this.update())}),this.show(e,!0)}show(t,e=!1){ve(t),this.views={text:new Ft,map:new Pt,heads:new St,flow:new Ct,compare:new Tt};let n=this.context?.state.theme??"auto";this.context=new gt(t,{},{set:s=>this.set(s),point:s=>this.point(s),tip:(s,r)=>this.tipAt(s,r),announce:s=>{this.said.textContent=s}}),this.tabs.hidden=this.notice.hidden=!t.maps.length,this.first=t.maps.length?this.firstState(t,n):{theme:n},t.maps.length?this.context.state=e&&this.linked?this.sound(Vt(location.hash,this.first)):{...this.first}:this.context.state=this.first,this.update()}withoutMaps(){let{payload:t,palette:e}=this.context;this.bar.replaceChildren(c("p",{class:"title"},t.title)),this.foot.replaceChildren(c("p",{},`mixlens ${t.mixlens}`)),this.panel.replaceChildren(t.ranking?Pe(t.ranking,e):c("p",{class:"quiet"},"Type a text above and press Measure."))}firstState(t,e){let{measured:n}=this.context,s=Math.max(0,t.maps.findIndex(u=>u.measure==="value_zeroing")),r=n[s].sources,i=(r.words??r.labels).length,a=r.words??n[s].targets.words,l=r.segments&&i>Cn?"segments":a?"words":"tokens",h=t.start?.target??n[s].held[0]??0;return{view:G.find(u=>u===t.start?.view)??"text",map:s,other:null,target:h,depth:n[s].defaultDepth,rows:"each",head:null,unit:l,threshold:.02,open:l==="segments"?this.strongest(n[s],h):[],node:null,theme:e}}strongest(t,e){let n=new _(t.sources,"segments"),s=new _(t.targets,"tokens"),r={depth:t.defaultDepth,head:null},i=t.incoming(r,s,e,n);return E(i,-1).slice(0,2).map(a=>a.group)}sound(t){let e={...t},{measured:n}=this.context;n[e.map]||(e.map=this.first.map);let s=n[e.map];return s.depths.includes(e.depth)||(e.depth=s.defaultDepth),e.head!==null&&(typeof e.depth!="number"||!(e.head>=0&&e.head<s.heads))&&(e.head=null),s.holds(e.target)||(e.target=s.holds(this.first.target)?this.first.target:s.held[s.held.length-1]),e.unit==="segments"&&!s.sources.segments&&(e.unit=s.sources.words?"words":"tokens"),e.unit==="words"&&!s.sources.words&&!s.targets.words&&(e.unit="tokens"),e.other!==null&&!n[e.other]&&(e.other=null),e}set(t){let{context:e}=this;if(e.preview=null,e.state=this.sound({...e.state,...t}),this.linked){let n=Bt(e.state,this.first);history.replaceState(null,"",`${location.pathname}${location.search}${n?`#${n}`:""}`)}this.update(),this.tipAt(null,[])}point(t){this.context.preview!==t&&(this.context.preview=t,cancelAnimationFrame(this.frame),this.frame=requestAnimationFrame(()=>this.view.pointed?.(this.context)))}get view(){return this.views[this.context.state.view]}soon(){cancelAnimationFrame(this.frame),this.frame=requestAnimationFrame(()=>this.update())}print(t){this.printing=t,this.update()}paint(){let{theme:t}=this.context.state,e=!this.printing&&(t==="dark"||t==="auto"&&this.dark.matches);this.context.palette=this.printing?se:e?ne:rt,this.root.dataset.theme=e?"dark":"light",this.linked&&(document.documentElement.dataset.theme=e?"dark":"light")}update(){if(this.paint(),!this.context.measured.length)return this.withoutMaps();this.choices(),this.tabBar(),this.fillNotice();let{element:t}=this.view;this.panel.firstChild!==t&&this.panel.replaceChildren(t),this.view.update(this.context),this.foot.replaceChildren(...le(this.context))}choices(){let{context:t}=this,{state:e,measured:n,current:s}=t,r=[D("Measure",n.map((u,d)=>[String(d),t.name(u)]),String(e.map),u=>this.set({map:Number(u),head:null})),D("Layer",s.depths.map(u=>[String(u),s.depthName(u),s.upTo.length?An(u):void 0]),String(e.depth),u=>this.set({depth:ft(u)}))];s.heads&&typeof e.depth=="number"&&r.push(D("Head",[["","whole layer"],...Array.from({length:s.heads},(u,d)=>[String(d),String(d)])],e.head===null?"":String(e.head),u=>this.set({head:u===""?null:Number(u)})));let{words:i,segments:a}=s.sources,l=[["tokens","Tokens"]];(i||s.targets.words)&&l.unshift(["words","Words"]),a&&l.push(["segments","Segments"]),l.length>1&&r.push(D("By",l,e.unit,u=>this.set({unit:u,node:null})));let h=this.root.getRootNode().activeElement,p=h&&this.bar.contains(h)?[...this.bar.querySelectorAll("select, button, summary")].indexOf(h):-1;this.bar.replaceChildren(...r,c("span",{class:"push"}),this.themeButton(),be(()=>this.view,this.context,this.linked)),p>=0&&this.bar.querySelectorAll("select, button, summary")[p]?.focus()}fillNotice(){let{current:t,state:e}=this.context,n=t.warningAt(e.depth);if(this.notice.hidden=n===null,n===null)return;let s=t.depths.includes("mean"),r=()=>this.set({depth:"mean"});this.notice.replaceChildren(c("span",{},`${n} `),...s?[c("button",{type:"button",class:"link",onclick:r},"Show the mean of layers")]:[])}themeButton(){let t=this.context.palette.dark;return c("button",{type:"button",class:"plain","aria-label":t?"Light colours":"Dark colours",onclick:()=>this.set({theme:t?"light":"dark"})},t?"☀":"☾")}tabBar(){let{state:t}=this.context;if(!this.tabs.children.length)for(let e of G)this.tabs.append(c("button",{type:"button",role:"tab","data-view":e,onclick:()=>this.set({view:e}),onkeydown:n=>this.tabKey(n)},je[e]));for(let e of this.tabs.children){let n=e.dataset.view===t.view;e.setAttribute("aria-selected",String(n)),e.tabIndex=n?0:-1}this.panel.setAttribute("aria-label",je[t.view])}tabKey(t){let e={ArrowLeft:-1,ArrowRight:1}[t.key];if(!e)return;t.preventDefault();let n=(G.indexOf(this.context.state.view)+e+G.length)%G.length;this.set({view:G[n]}),this.tabs.children[n].focus()}tipAt(t,e){let{tip:n}=this;if(n.classList.toggle("on",!!(t&&e.length)),!t||!e.length)return;n.replaceChildren(...e.map((h,p)=>c(p?"div":"b",{dir:"auto"},h)));let{clientX:s,clientY:r}=t,i=n.offsetWidth,a=n.offsetHeight;n.style.left=`${Math.max(4,Math.min(s+14,window.innerWidth-i-8))}px`;let l=r+18+a<=window.innerHeight;n.style.top=`${l?r+18:r-a-12}px`}};function An(o){return typeof o=="number"?"One layer":R(o)===null?"All layers":"Layers up to one"}var Fe=`html {
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
}
.mixlens .tabs button {
  border: 0;
  border-radius: 6px 6px 0 0;
  padding: 7px 13px;
  color: var(--quiet);
  border-bottom: 2px solid transparent;
  margin-bottom: -1px;
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
.ranked.long th {
  width: 66%;
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
  width: 42%;
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
  width: 62px;
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
.matrix table {
  font-size: 13px;
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
  .wide {
    max-height: none;
    overflow: visible;
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
`;function De(o){let t=new CSSStyleSheet;t.replaceSync(Fe),o.adoptedStyleSheets=[...o.adoptedStyleSheets,t]}function We(o,t){try{t()}catch(e){o.replaceChildren(c("p",{role:"alert"},`This view cannot be shown: ${e.message}`))}}var qe=typeof document>"u"?null:document.getElementById("payload"),Qt=typeof document>"u"?null:document.getElementById("view");if(qe&&Qt){De(document);let o=JSON.parse(qe.textContent??"null"),t=location.protocol!=="about:";We(Qt,()=>new ut(Qt,o,o.live?new vt(o.live.api):null,t))}var te=class{constructor(t){this.model=t;this.running=0}choices(){return Promise.resolve(this.model.get("choices"))}run(t){let e=++this.running;return new Promise((n,s)=>{let r=()=>{let i=this.model.get("answer");i.number===e&&(this.model.off("change:answer",r),i.payload?n(i.payload):s(new Error(i.error??"The kernel gave no answer.")))};this.model.on("change:answer",r),this.model.set("job",{...t,number:e}),this.model.save_changes()})}cancel(){}};function Sn({model:o,el:t}){let e=t.attachShadow({mode:"open"});De(e);let n=c("div");e.append(n),We(n,()=>new ut(n,o.get("payload"),new te(o),!1))}return Ke(Pn);})();
