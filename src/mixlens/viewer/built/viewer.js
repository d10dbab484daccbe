/* mixlens viewer, built from web/ 40000a9f40e98fc21c3ae6c44005132a90a80ac2a5e33d4222aeea4e75540a85 */
"use strict";var mixlensViewer=(()=>{var Ft=Object.defineProperty;var Ie=Object.getOwnPropertyDescriptor;var _e=Object.getOwnPropertyNames;var Ge=Object.prototype.hasOwnProperty;var Ue=(i,t)=>{for(var e in t)Ft(i,e,{get:t[e],enumerable:!0})},Be=(i,t,e,s)=>{if(t&&typeof t=="object"||typeof t=="function")for(let n of _e(t))!Ge.call(i,n)&&n!==e&&Ft(i,n,{get:()=>t[n],enumerable:!(s=Ie(t,n))||s.enumerable});return i};var Ve=i=>Be(Ft({},"__esModule",{value:!0}),i);var As={};Ue(As,{render:()=>Cs});var ut=i=>[Number.parseInt(i.slice(1,3),16),Number.parseInt(i.slice(3,5),16),Number.parseInt(i.slice(5,7),16)],pt={dark:!1,paper:"#ffffff",ink:"#16191d",quiet:"#59626d",line:"#dfe3e8",band:"#f4f6f8",plus:["#f6f8fb","#cfe1f4","#9cc4ea","#5f9fdb","#2a74bd","#0b4586"].map(ut),minus:["#fbf8f5","#fbdfc8","#f5b988","#e58b43","#bf5f14","#803604"].map(ut)},ee={dark:!0,paper:"#101316",ink:"#e8ebef",quiet:"#a0a9b4",line:"#2c333b",band:"#191e23",plus:["#181c21","#14324f","#1a517f","#2f7ab8","#62a9e0","#b4daf8"].map(ut),minus:["#1e1b18","#452811","#754015","#ad611f","#e08a40","#fcc797"].map(ut)};function Je(i,t){let e=Math.min(1,Math.max(0,t))*(i.length-1),s=Math.min(Math.floor(e),i.length-2),n=e-s,[r,o]=[i[s],i[s+1]];return[0,1,2].map(a=>Math.round(r[a]+(o[a]-r[a])*n))}function M(i,t){return Je(t<0?i.minus:i.plus,Math.abs(t))}var T=([i,t,e])=>`rgb(${i}, ${t}, ${e})`;function Ke(i){let[t,e,s]=i.map(n=>{let r=n/255;return r<=.04045?r/12.92:((r+.055)/1.055)**2.4});return .2126*t+.7152*e+.0722*s}function nt(i){return Ke(i)>.179?"#000000":"#ffffff"}var Ye={0:"NUL",7:"BEL",8:"BS",9:"TAB",10:"↵",13:"CR",27:"ESC",127:"DEL",160:"NBSP",173:"SHY",1564:"ALM",6158:"MVS",8203:"ZWSP",8204:"ZWNJ",8205:"ZWJ",8206:"LRM",8207:"RLM",8232:"LS",8233:"PS",8234:"LRE",8235:"RLE",8236:"PDF",8237:"LRO",8238:"RLO",8288:"WJ",8294:"LRI",8295:"RLI",8296:"FSI",8297:"PDI",65279:"BOM",65532:"OBJ"},Xe=/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u00a0\ufffc]/gu,se=/[\p{L}\p{M}\p{Extended_Pictographic}\ufe0f\u{1f3fb}-\u{1f3ff}]/u;function Y(i){return i.replace(Xe,(t,e)=>{let s=t.codePointAt(0);if(s===10)return"↵";if(s===8204||s===8205){let n=[...i.slice(0,e)].pop()??"",r=[...i.slice(e+1)][0]??"";if(se.test(n)&&se.test(r))return t}return`⟨${Ye[s]??`U+${s.toString(16).toUpperCase().padStart(4,"0")}`}⟩`})}var _=class{constructor(t,e,s=new Set){this.text=t;this.unit=e;this.open=s;this.groups=Ze(t,e,s),this.of=new Int32Array(t.labels.length),this.groups.forEach((n,r)=>this.of.fill(r,n.start,n.stop))}get size(){return this.groups.length}label(t){let{start:e,stop:s,segment:n}=this.groups[t],r=n===null?void 0:this.text.segments[n][2];return r===void 0?this.beginning(e,s,n!==null):Y(r)}beginning(t,e,s){let n=s?Math.min(e,t+6):e,r="";for(let o=t;o<n;o++)r+=(o>t?this.text.gaps[o].replace(/\s+/g," "):"")+this.text.shown[o];return Y(r)+(n<e?" …":"")}special(t){let{start:e,stop:s}=this.groups[t];return this.text.special.slice(e,s).every(n=>n===1)}};function Ze(i,t,e){let s=i.labels.length,n=(o,a)=>Array.from({length:a-o},(l,h)=>({start:o+h,stop:o+h+1,segment:null})),r=(o,a)=>i.words?i.words.filter(([l,h])=>l<a&&h>o).map(([l,h])=>({start:Math.max(l,o),stop:Math.min(h,a),segment:null})):n(o,a);return t==="tokens"?n(0,s):t==="words"||!i.segments?r(0,s):i.segments.flatMap(([o,a],l)=>e.has(l)?r(o,a):[{start:o,stop:a,segment:l}])}function ne(i,t){return i.segments?i.segments.findIndex(([e,s])=>e<=t&&t<s):-1}function Qe(i){let t=atob(i),e=new Uint8Array(t.length);for(let s=0;s<t.length;s++)e[s]=t.charCodeAt(s);return e}var ts=(()=>{let i=new Float32Array(65536);for(let t=0;t<65536;t++){let e=t&32768?-1:1,s=t>>10&31,n=t&1023;s===0?i[t]=e*n*2**-24:s===31?i[t]=n?Number.NaN:e*Number.POSITIVE_INFINITY:i[t]=e*(1+n/1024)*2**(s-15)}return i})();function X(i){let t=Qe(i.data).buffer;switch(i.dtype){case"float16":{let e=new Uint16Array(t),s=new Float32Array(e.length);for(let n=0;n<e.length;n++)s[n]=ts[e[n]];return s}case"float32":return new Float32Array(t);case"uint16":return new Uint16Array(t);case"uint32":return new Uint32Array(t);default:throw new Error(`Arrays of ${i.dtype} are not known here.`)}}function dt(i){return i.kind==="dense"?new qt(i.shares):new Dt(i)}var qt=class{constructor(t){this.complete=!0;let e=t.shape;this.sources=e[e.length-1],this.targets=e[e.length-2],this.layers=e.slice(0,-2).reduce((s,n)=>s*n,1),this.values=X(t)}eachOfRow(t,e,s){let n=(t*this.targets+e)*this.sources;for(let r=0;r<this.sources;r++){let o=this.values[n+r];o!==0&&s(r,o)}}eachOfColumn(t,e,s){let n=t*this.targets*this.sources+e;for(let r=0;r<this.targets;r++){let o=this.values[n+r*this.sources];o!==0&&s(r,o)}}},Dt=class{constructor(t){this.complete=!1;this.columns=new Map;[this.layers,this.targets,this.sources]=t.shape,this.starts=X(t.starts),this.indices=X(t.indices),this.values=X(t.values)}eachOfRow(t,e,s){let n=t*this.targets+e;for(let r=this.starts[n];r<this.starts[n+1];r++)s(this.indices[r],this.values[r])}eachOfColumn(t,e,s){let{starts:n,rows:r,values:o}=this.columnsOf(t);for(let a=n[e];a<n[e+1];a++)s(r[a],o[a])}columnsOf(t){let e=this.columns.get(t);if(e)return e;let s=new Uint32Array(this.sources+1);for(let l=0;l<this.targets;l++)this.eachOfRow(t,l,h=>s[h+1]++);for(let l=0;l<this.sources;l++)s[l+1]+=s[l];let n=s.slice(),r=new Uint32Array(s[this.sources]),o=new Float32Array(r.length);for(let l=0;l<this.targets;l++)this.eachOfRow(t,l,(h,p)=>{let u=n[h]++;r[u]=l,o[u]=p});let a={starts:s,rows:r,values:o};return this.columns.set(t,a),a}};function R(i){return typeof i=="string"&&i.startsWith("to")?Number(i.slice(2)):null}function ft(i){return i==="all"||i==="mean"||i.startsWith("to")?i:Number(i)}var mt=class{constructor(t,e){this.entry=e;this.norms=new WeakMap;this.targets=t.texts[e.targets],this.sources=t.texts[e.sources],this.square=e.targets===e.sources,this.held=e.target_positions??this.targets.labels.map((n,r)=>r),this.rowOf=new Map(this.held.map((n,r)=>[n,r])),this.layers=e.scores&&dt(e.scores),this.joined=e.joined&&dt(e.joined.scores),this.perHead=e.heads?dt(e.heads):null,this.heads=this.perHead?this.perHead.layers/e.layers.length:0;let s=n=>n?X(n):null;this.totals=s(e.totals),this.joinedTotals=s(e.joined?.totals)}get complete(){return(this.layers?.complete??!0)&&(this.joined?.complete??!0)}get whole(){return this.square&&this.entry.target_positions===null&&this.layers!==null}get depths(){let t=this.entry.layers.map((n,r)=>r),e=this.entry.joined?.how==="mean",s=t.length>1&&!this.entry.reaches_input&&!e?["mean"]:[];return[...this.joined?["all"]:[],...s,...this.upTo,...t]}get upTo(){let t=this.joined?.layers??0;return Array.from({length:Math.max(0,t-1)},(e,s)=>`to${s}`)}get defaultDepth(){if(this.joined)return"all";let t=this.entry.layers.length-1;return this.entry.reaches_input||t===0?t:"mean"}depthName(t){if(t==="mean")return"Mean of layers";let e=this.entry.joined?.how.replace(/\(.*/,"")??"";if(t==="all")return`All layers (${e})`;let s=R(t);if(s!==null)return`Layers up to ${this.entry.layers[s]} (${e})`;let n=(this.entry.provenance.steps??[]).find(o=>/^(rollout|flow)/.test(o)),r=`Layer ${this.entry.layers[t]}`;return n?`${r} (${n.replace(/\(.*/,"")} up to it)`:r}holds(t){return this.rowOf.has(t)}planes({depth:t,head:e}){return typeof t=="string"&&t!=="mean"&&this.joined?[this.joinedPlane(R(t)??this.joined.layers-1)]:typeof t=="string"?this.entry.layers.flatMap((s,n)=>this.planes({depth:n,head:e})):e!==null&&this.perHead?[{shares:this.perHead,layer:t*this.heads+e,totals:null}]:this.layers?[{shares:this.layers,layer:t,totals:this.part(this.totals,t)}]:[]}joinedPlane(t){return{shares:this.joined,layer:t,totals:this.part(this.joinedTotals,t)}}part(t,e){let s=this.held.length;return t?.subarray(e*s,(e+1)*s)??null}rows(t,e){let{start:s,stop:n}=t.groups[e],r=[];for(let o=s;o<n;o++){let a=this.rowOf.get(o);a!==void 0&&r.push(a)}return r}incoming(t,e,s,n){let r=new Float64Array(n.size),o=this.planes(t),a=this.rows(e,s);for(let l of o){let h=o.length>1?new Float64Array(n.size):r,p=this.accumulate(l,a,n,h),u=p>0?1/p/o.length:0;for(let m=0;m<h.length;m++)h===r?r[m]*=u:r[m]+=h[m]*u}return r}accumulate(t,e,s,n){let r=0;for(let a of e){let l=t.totals?t.totals[a]:1,h=0;t.shares.eachOfRow(t.layer,a,(p,u)=>{n[s.of[p]]+=u*l,h+=Math.abs(u)}),t.shares.complete||(r+=Math.max(0,1-h)*l)}let o=r;for(let a of n)o+=Math.abs(a);return o}outgoing(t,e,s,n){let r=new Float64Array(e.size),o=this.planes(t),{start:a,stop:l}=s.groups[n];for(let h of o){let p=this.normsOf(h,e,s);for(let u=a;u<l;u++)h.shares.eachOfColumn(h.layer,u,(m,d)=>{let f=e.of[this.held[m]],g=p[f],b=h.totals?h.totals[m]:1;g>0&&(r[f]+=d*b/g/o.length)})}return r}normsOf(t,e,s){let n=this.norms.get(e)??new Map;this.norms.set(e,n);let r=`${t.shares===this.perHead} ${t.shares===this.joined} ${t.layer}`,o=n.get(r)??new Float64Array(e.size);if(n.has(r))return o;for(let a=0;a<e.size;a++){let l=this.rows(e,a);if(this.entry.signed)o[a]=this.accumulate(t,l,s,new Float64Array(s.size));else for(let h of l)o[a]+=t.totals?t.totals[h]:1}return n.set(r,o),o}eachTransition(t,e,s){let{residual:n=0,normalise:r}=this.entry.joined,o=this.entry.signed||!this.totals?1:this.totals[t*this.held.length+e],a=n;r!==!1&&this.layers.eachOfRow(t,e,(h,p)=>{a+=(1-n)*Math.abs(p)*o});let l=r===!1?1:a>0?1/a:0;n>0&&s(e,n*l),this.layers.eachOfRow(t,e,(h,p)=>s(h,(1-n)*Math.abs(p)*o*l))}total({depth:t,head:e},s){if(e!==null||typeof t!="number"||!this.totals)return null;let n=this.rowOf.get(s);return n===void 0?null:this.totals[t*this.held.length+n]}};function $(i,t){let e=[];for(let s=0;s<i.length;s++)s!==t&&i[s]!==0&&e.push({group:s,value:i[s]});return e.sort((s,n)=>Math.abs(n.value)-Math.abs(s.value)||s.group-n.group)}function A(i,t){let e=0;for(let s=0;s<i.length;s++)s!==t&&(e=Math.max(e,Math.abs(i[s])));return e}var gt=class{constructor(t,e,s){this.payload=t;this.state=e;this.actions=s;this.preview=null;this.groupings=new Map;this.measured=t.maps.map(n=>new mt(t,n))}get current(){return this.measured[this.state.map]}get choice(){return{depth:this.state.depth,head:this.state.head}}get target(){return this.preview??this.state.target}isPatch(t,e){let{image:s}=this.payload;return!s||t!==this.payload.texts[s.text??this.payload.maps[0].sources]?!1:e>=s.first&&e<s.first+s.rows*s.columns}grouping(t){let e=this.state.unit==="segments"?this.openSegments(t):[],s=`${this.payload.texts.indexOf(t)} ${this.state.unit} ${e.join(",")}`,n=this.groupings.get(s);return n||(this.groupings.size>12&&this.groupings.clear(),n=new _(t,this.state.unit,new Set(e)),this.groupings.set(s,n)),n}fine(t){let e=`${this.payload.texts.indexOf(t)} fine`,s=this.groupings.get(e)??new _(t,"words");return this.groupings.set(e,s),s}openSegments(t){let e=t===this.current.targets?ne(t,this.state.target):-1,s=new Set(this.state.open);return e>=0&&s.add(e),[...s].sort((n,r)=>n-r)}get targets(){return this.grouping(this.current.targets)}get sources(){return this.grouping(this.current.sources)}get targetGroup(){return this.targets.of[this.target]??0}get own(){return this.current.square?this.targetGroup:-1}incoming(t=this.current,e=this.choice){return t.incoming(e,this.targets,this.targetGroup,this.sources)}outgoing(){let{current:t}=this;return t.outgoing(this.choice,this.targets,this.sources,this.targetGroup)}depthFor(t){return t.depths.includes(this.state.depth)?this.state.depth:t.defaultDepth}name(t){let{measure:e,provenance:s}=t.entry,n=s.site;return new Set(this.payload.maps.map(o=>o.provenance.site)).size>1&&n?`${e} · ${n}`:e}};function c(i,t={},...e){let s=document.createElement(i);for(let[n,r]of Object.entries(t))r==null||r===!1||(n.startsWith("on")?s.addEventListener(n.slice(2),r):n==="class"?s.className=String(r):s.setAttribute(n,r===!0?"":String(r)));return s.append(...e.filter(n=>n!=null&&n!==!1)),s}function P(i){let t=[...i];return t.length>32?`${t.slice(0,31).join("")}…`:i}function bt(i){let t=i.length-1;return i.flatMap((e,s)=>[s===0?"":s===t?" and ":", ",...e])}function v(i){let t=Math.abs(i*100);if(t>0&&t<.005)return"under 0.01 %";let e=t>=9.95?0:t>=.095?1:2;return`${i<0?"−":""}${t.toFixed(e)} %`}var E=i=>`⁨${i}⁩`;function D(i,t,e,s){let n=c("select",{onchange:o=>s(o.target.value)}),r=new Map;for(let[o,a,l]of t){let h=l?r.get(l)??c("optgroup",{label:l}):n;l&&r.set(l,h),h!==n&&n.append(h),h.append(c("option",{value:o,selected:o===e},a))}return c("label",{class:"field"},c("span",{},i),n)}function j(i){let t={ArrowLeft:[-1,0],ArrowRight:[1,0],ArrowUp:[0,-1],ArrowDown:[0,1]};return c("canvas",{tabindex:"0",role:"img",onmousemove:i.over,onmouseleave:i.leave,onclick:i.choose,onkeydown:e=>{let s=t[e.key];e.key==="Enter"&&i.choose(),s&&(e.preventDefault(),i.step(...s))}})}var L=(i,t)=>Math.max(0,Math.min(t-1,i));function F(i,t){let e=c("details",{class:"behind"},c("summary",{},`${i} as a table`));return e.addEventListener("toggle",()=>{e.open&&oe(e,t())}),e}function q(i,t){i.open&&oe(i,t())}var re=400;function oe(i,[t,...e]){i.querySelector("div")?.remove();let s=c("table",{},c("thead",{},c("tr",{},...(t??[]).map(r=>c("th",{scope:"col"},r)))),c("tbody",{},...e.slice(0,re).map(r=>c("tr",{},...r.map((o,a)=>a?c("td",{},o):c("th",{scope:"row"},o)))))),n=e.length-re;i.append(c("div",{class:"wide",tabindex:"0",role:"region","aria-label":"Table"},s,n>0&&c("p",{},`${n} more rows are in the CSV file.`)))}function ie(i){let{current:t,payload:e}=i,{provenance:s,citation:n,summary:r,notes:o,measure:a,joined:l}=t.entry,h=Object.entries(s.options??{}).map(([f,g])=>`${f}=${String(g)}`).join(", "),p=(s.steps??[]).join(" → "),u=s.name??s.model??"",m=[u&&`${u}${s.dtype?` in ${String(s.dtype)}`:""}`,`${a}${h?` (${h})`:""}${p?` → ${p}`:""}`,l&&`layers joined by ${l.how}`,s.site,n,"shares in float16, three digits",`mixlens ${e.mixlens}`],d=[...o??[]];if(!t.complete){let f=Array.from(i.incoming()).reduce((g,b)=>g+Math.abs(b),0);d.push(`Of each row and column only the largest shares are in this page. For this target ${v(Math.max(0,1-f))} is left out.`)}return[c("p",{},c("b",{},a),r?`: ${r}.`:"."),c("p",{},m.filter(Boolean).join(" · ")),...d.map(f=>c("p",{},f))]}var es=i=>new Promise(t=>setTimeout(t,i)),vt=class{constructor(t){this.api=t;this.job=null}async ask(t,e={}){let s=await fetch(this.api+t,e);if(s.status===204)return;let n=await s.json().catch(()=>null);if(!s.ok)throw new Error(typeof n?.detail=="string"?n.detail:`The server answered ${s.status}.`);return n}choices(){return this.ask("")}async run(t,e){let{id:s}=await this.ask("/jobs",{method:"POST",headers:{"Content-Type":"application/json"},body:JSON.stringify(t)});this.job=s;for(let n=80;;n=Math.min(1e3,n*1.3)){let r=await this.ask(`/jobs/${s}`);if(r.state==="done")break;if(r.state==="failed"||r.state==="cancelled")throw new Error(r.message||r.state);e(r.progress,r.message||r.state),await es(n)}return this.job=null,this.ask(`/jobs/${s}/payload`)}cancel(){this.job&&this.ask(`/jobs/${this.job}`,{method:"DELETE"}).catch(()=>{})}},ss=["value_zeroing","attention","alti"];function ae(i,t,e){let s=c("textarea",{rows:"2","aria-label":"Text",spellcheck:"false"});s.value=t.texts[0]?ns(t):"";let n=c("textarea",{rows:"2","aria-label":"Target text: what the decoder is given",placeholder:"What the decoder is given",spellcheck:"false",hidden:!0}),r=c("span",{class:"live-fields"}),o=c("fieldset",{class:"checks"},c("legend",{},"Measures")),a=c("input",{type:"checkbox"}),l=c("button",{type:"submit",class:"primary"},"Measure"),h=c("button",{type:"button",hidden:!0,onclick:()=>i.cancel()},"Cancel"),p=c("progress",{max:"1",hidden:!0,"aria-label":"Progress"}),u=c("p",{class:"quiet",role:"status"}),m="",d=c("form",{class:"live",onsubmit:g=>{g.preventDefault(),f()}},s,n,c("div",{class:"live-line"},r,c("details",{class:"behind"},c("summary",{},"Measures"),o,c("label",{},a," single heads too")),l,h,p,u));async function f(){let g=[...o.querySelectorAll("input:checked")].map(b=>b.value);l.disabled=!0,p.hidden=h.hidden=!1,u.textContent="",u.classList.remove("wrong");try{let b={model:m,text:s.value,target_text:n.hidden?null:n.value,measures:g,heads:a.checked};e(await i.run(b,(w,x)=>{p.value=w,u.textContent=x})),u.textContent=""}catch(b){u.textContent=b.message,u.classList.add("wrong")}finally{l.disabled=!1,p.hidden=h.hidden=!0}}return i.choices().then(g=>{m=g.models[0]?.name??"";let b=()=>{n.hidden=!g.models.find(x=>x.name===m)?.pairs};b(),g.models.length>1&&r.append(D("Model",g.models.map(({name:x})=>[x,x]),m,x=>{m=x,b()}));let w=new Set(t.maps.map(x=>x.measure));for(let{name:x,summary:C}of g.measures){let k=w.size?w.has(x):ss.includes(x);o.append(c("label",{title:C??""},c("input",{type:"checkbox",value:x,checked:k}),` ${x}`))}},g=>{u.textContent=g.message,u.classList.add("wrong")}),d}function ns(i){let{shown:t,gaps:e,special:s,labels:n}=i.texts[0];return t.map((r,o)=>s[o]&&!/mask/i.test(n[o])?"":e[o]+r).join("").trim()}var le='system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif',he=(i,t=400)=>`${t} ${i}px ${le}`,J=class{constructor(t){this.pen=t;this.rect=(t,e,s,n,r,o,a=1,l=0)=>{let{pen:h}=this;h.beginPath(),l?h.roundRect(t,e,s,n,l):h.rect(t,e,s,n),r&&(h.fillStyle=r,h.fill()),o&&(h.strokeStyle=o,h.lineWidth=a,h.stroke())};this.text=(t,e,s,n)=>{let{pen:r}=this;r.save(),r.font=he(n.size,n.weight),r.fillStyle=n.fill,r.textAlign=n.align??"left",r.direction=n.rtl?"rtl":"ltr",r.translate(t,e),n.rotate&&r.rotate(n.rotate*Math.PI/180),r.fillText(s,0,0),r.restore()};this.curve=(t,e,s,n,r,o,a)=>{let{pen:l}=this,h=(e+n)/2;l.save(),l.globalAlpha=a,l.strokeStyle=o,l.lineWidth=r,l.lineCap="round",l.beginPath(),l.moveTo(t,e),l.bezierCurveTo(t,h,s,h,s,n),l.stroke(),l.restore()};this.circle=(t,e,s,n,r)=>{let{pen:o}=this;o.beginPath(),o.arc(t,e,s,0,2*Math.PI),o.fillStyle=n,o.fill(),r&&(o.strokeStyle=r,o.lineWidth=2,o.stroke())};this.image=(t,e,s,n,r,o=!1)=>{this.pen.imageSmoothingEnabled=o,this.pen.drawImage(t,e,s,n,r)}}width(t,e,s){return ce(t,e,s)}},Wt=null;function ce(i,t,e){return Wt??=document.createElement("canvas").getContext("2d"),Wt.font=he(t,e),Wt.measureText(i).width}var Z=i=>Math.round(i*100)/100,rt=class{constructor(){this.parts=[];this.rect=(t,e,s,n,r,o,a=1,l=0)=>{this.put("rect",{x:t,y:e,width:s,height:n,rx:l||void 0,fill:r??"none",stroke:o,"stroke-width":o&&a})};this.text=(t,e,s,n)=>{let r={left:"start",center:"middle",right:"end"}[n.align??"left"];this.put("text",{x:n.rotate?0:t,y:n.rotate?0:e,transform:n.rotate?`translate(${Z(t)} ${Z(e)}) rotate(${n.rotate})`:void 0,"font-size":n.size,"font-weight":n.weight,fill:n.fill,direction:n.rtl?"rtl":void 0,"text-anchor":r==="start"?void 0:r},It(s))};this.curve=(t,e,s,n,r,o,a)=>{let[l,h,p,u,m]=[t,e,s,n,(e+n)/2].map(Z);this.put("path",{d:`M${l} ${h}C${l} ${m} ${p} ${m} ${p} ${u}`,fill:"none",stroke:o,"stroke-width":r,"stroke-opacity":a,"stroke-linecap":"round"})};this.circle=(t,e,s,n,r)=>{this.put("circle",{cx:t,cy:e,r:s,fill:n,stroke:r,"stroke-width":r&&2})};this.image=(t,e,s,n,r)=>{let o=t instanceof HTMLCanvasElement?t.toDataURL("image/png"):t.src;this.put("image",{x:e,y:s,width:n,height:r,href:o,preserveAspectRatio:"none",style:"image-rendering:pixelated"})}}put(t,e,s=""){let n=Object.entries(e).filter(([,r])=>r!==void 0).map(([r,o])=>`${r}="${It(String(typeof o=="number"?Z(o):o))}"`).join(" ");this.parts.push(`<${t} ${n}${s?`>${s}</${t}>`:"/>"}`)}width(t,e,s){return ce(t,e,s)}file(t,e,s){let[n,r]=[Z(t),Z(e)],a=`<svg xmlns="http://www.w3.org/2000/svg" ${`width="${n}" height="${r}" viewBox="0 0 ${n} ${r}"`} font-family="${It(le)}">`,l=`<rect width="100%" height="100%" fill="${s}"/>`;return`${a}${l}${this.parts.join("")}</svg>
`}};function It(i){return i.replace(/[&<>"]/g,t=>({"&":"&amp;","<":"&lt;",">":"&gt;",'"':"&quot;"})[t])}function S(i,t,e,s){if(i.width(t,e)<=s)return t;let n=[...t];for(;n.length>1&&i.width(`${n.join("")}…`,e)>s;)n.pop();return`${n.join("")}…`}function z(i,t,e){let s=Math.max(1,window.devicePixelRatio||1);i.width=Math.max(1,Math.round(t*s)),i.height=Math.max(1,Math.round(e*s)),i.style.width=`${t}px`,i.style.height=`${e}px`;let n=i.getContext("2d");return n.setTransform(s,0,0,s,0,0),n.clearRect(0,0,t,e),new J(n)}var wt=1e3,ot=28;function rs(i){let{current:t,state:e}=i,{provenance:s}=t.entry,n=s.name??s.model??"",r=e.head===null?"":`, head ${e.head}`;return[`${i.name(t)}, ${t.depthName(e.depth).toLowerCase()}${r}`,n,`mixlens ${i.payload.mixlens}`].filter(Boolean).join(" · ")}var _t=class{constructor(t,e){this.inner=t;this.by=e;this.rect=(t,e,...s)=>this.inner.rect(t+this.by,e+this.by,...s);this.text=(t,e,...s)=>this.inner.text(t+this.by,e+this.by,...s);this.circle=(t,e,...s)=>this.inner.circle(t+this.by,e+this.by,...s);this.curve=(t,e,s,n,...r)=>this.inner.curve(t+this.by,e+this.by,s+this.by,n+this.by,...r);this.image=(t,e,s,...n)=>this.inner.image(t,e+this.by,s+this.by,...n);this.width=(...t)=>this.inner.width(...t)}};function Gt(i,t,e){let s=wt-2*ot,n=i.paint(new _t(e,ot),t,s);return e.text(ot,ot+n+22,rs(t),{size:12,fill:t.palette.quiet}),n+2*ot+22}function ue(i,t){let e=new rt,s=Gt(i,t,e);return e.file(wt,s,t.palette.paper)}function pe(i,t,e=2){let s=Gt(i,t,new rt),n=document.createElement("canvas");n.width=wt*e,n.height=Math.round(s*e);let r=n.getContext("2d");return r.scale(e,e),r.fillStyle=t.palette.paper,r.fillRect(0,0,wt,s),Gt(i,t,new J(r)),new Promise((o,a)=>n.toBlob(l=>l?o(l):a(new Error("The picture is too large for this browser.")),"image/png"))}function de(i){let t=e=>{let s=/^[=@+\t\r]/.test(e)||/^-(?![\d.])/.test(e)?`'${e}`:e;return/[",\n\r]/.test(s)?`"${s.replaceAll('"','""')}"`:s};return`${i.map(e=>e.map(t).join(",")).join(`\r
`)}\r
`}function me(i,t){let[e,...s]=i.rows(t),{current:n,state:r}=t,o=n.depthName(r.depth),{provenance:a}=n.entry;return`${JSON.stringify({state:r,depth:o,provenance:a,columns:e,rows:s},null,2)}
`}function it(i,t,e){let s=typeof t=="string"?new Blob([t],{type:e}):t,n=document.createElement("a");n.href=URL.createObjectURL(s),n.download=i,n.click(),setTimeout(()=>URL.revokeObjectURL(n.href),1e4)}function fe(i,t,e){let s=c("summary",{},"Save"),n=c("details",{class:"menu"},s),r=(h,p)=>c("button",{type:"button",onclick:async()=>{n.open=!1;try{await p()}catch(m){s.textContent="Not possible here",s.title=m.message,t.actions.announce(m.message)}}},h),o=h=>`mixlens-${t.state.view}.${h}`,a=()=>pe(i(),t),l=[r("Picture (PNG)",async()=>it(o("png"),await a(),"image/png")),r("Drawing (SVG)",()=>it(o("svg"),ue(i(),t),"image/svg+xml")),r("Numbers (CSV)",()=>it(o("csv"),de(i().rows(t)),"text/csv")),r("Numbers (JSON)",()=>it(o("json"),me(i(),t),"application/json")),r("Copy the picture",()=>navigator.clipboard.write([new ClipboardItem({"image/png":a()})]))];return e&&l.push(r("Copy a link to this view",()=>navigator.clipboard.writeText(location.href))),n.append(c("div",{},...l)),n.addEventListener("keydown",h=>{h.key==="Escape"&&(n.open=!1)}),n}function ge(i){if(i?.format!=="mixlens")throw new Error("This is not a mixlens payload.");if(i.version!==1)throw new Error(`This viewer shows payloads of version 1, not ${i.version}.`);return i}var G=["text","map","heads","flow","compare"];function Ut(i,t){let e=new URLSearchParams,s=(n,r,o)=>{JSON.stringify(r)!==JSON.stringify(o)&&e.set(n,String(r??""))};return s("view",i.view,t.view),s("measure",i.map,t.map),s("with",i.other,t.other),s("target",i.target,t.target),s("layer",i.depth,t.depth),s("rows",i.rows,t.rows),s("head",i.head,t.head),s("unit",i.unit,t.unit),s("from",i.threshold,t.threshold),s("open",i.open,t.open),s("node",i.node,t.node),s("theme",i.theme,t.theme),e.toString()}function Bt(i,t){let e=new URLSearchParams(i.replace(/^#/,"")),s=(h,p)=>{let u=e.get(h),m=Number(u);return u!==null&&u!==""&&Number.isFinite(m)?m:p},n=(h,p)=>e.get(h)===""?null:e.has(h)?s(h,-1):p,r=(h,p,u)=>p.find(m=>m===e.get(h))??u,o=h=>(e.get(h)??"").split(",").filter(Boolean).map(Number),a=e.get("layer"),l=o("node");return{view:r("view",G,t.view),map:s("measure",t.map),other:n("with",t.other),target:s("target",t.target),depth:a?ft(a):t.depth,rows:r("rows",["each","upto"],t.rows),head:n("head",t.head),unit:r("unit",["tokens","words","segments"],t.unit),threshold:s("from",t.threshold),open:e.has("open")?o("open"):t.open,node:l.length===2?[l[0],l[1]]:null,theme:r("theme",["auto","light","dark"],t.theme)}}function Vt(i){let t=Array.from({length:i.length},(s,n)=>n).sort((s,n)=>Math.abs(i[n])-Math.abs(i[s])),e=new Float64Array(i.length);for(let s=0;s<t.length;){let n=s;for(;n<t.length&&Math.abs(i[t[n]])===Math.abs(i[t[s]]);)n++;for(let r=s;r<n;r++)e[t[r]]=(s+1+n)/2;s=n}return e}function Jt(i,t){let e=Vt(i),s=Vt(t),n=(e.length+1)/2,r=0,o=0,a=0;for(let l=0;l<e.length;l++)r+=(e[l]-n)*(s[l]-n),o+=(e[l]-n)**2,a+=(s[l]-n)**2;return o&&a?r/Math.sqrt(o*a):Number.NaN}function xt(i,t){return Array.from(i).filter((e,s)=>s!==t)}function Q(i,t){let e=Array.from(i[0]??[],(r,o)=>o).filter(r=>r!==t),s=i.map(r=>Vt(e.map(o=>r[o])));return e.map((r,o)=>{let a=i.map(u=>Math.abs(u[r])),l=a.indexOf(Math.max(...a)),h=a.indexOf(Math.min(...a)),p=a[l]-a[h];return{group:r,high:l,low:h,highRank:s[l][o],lowRank:s[h][o],weight:p}}).sort((r,o)=>o.weight-r.weight)}var os=6;function yt(i){let{current:t,state:e}=i;return i.measured.filter(s=>s.targets===t.targets&&s.sources===t.sources&&s.holds(e.target)).map(s=>({measured:s,values:i.incoming(s,{depth:i.depthFor(s),head:null})}))}function at(i,t,e){return Jt(xt(t.values,i.own),xt(e.values,i.own))}function kt(i,t){let e=t.find(a=>a.measured===i.current),s=t.filter(a=>a!==e);if(!e||!s.length)return null;let n=s.filter(a=>a.measured.entry.layers.length>0),r=(n.length?n:s).filter(a=>a.measured.entry.measure!=="random"),o=a=>{let l=at(i,e,a);return Number.isNaN(l)?2:l};return(r.length?r:s).reduce((a,l)=>o(l)<o(a)?l:a)}function Mt(i){return i>.8?"agree":i>.4?"agree in part":"disagree"}function ve(i,t){let{own:e,sources:s}=i,n=t.map(u=>u.values),r=Q(n,e).slice(0,os),o=Math.max(...n.map(u=>A(u,e))),a=n.map(u=>$(u,e).map(m=>m.group)),l=t.flatMap(u=>[c("th",{scope:"col",colspan:"2"},i.name(u.measured)),c("th",{scope:"col",class:"place"},"rank")]),h=u=>n.flatMap((m,d)=>[c("td",{class:"bars"},Kt(i,m[u],o)),c("td",{class:"number"},v(m[u])),c("td",{class:"place"},is(a[d].indexOf(u)))]),p=r.filter(u=>u.weight>0).map(({group:u})=>{let m=c("th",{scope:"row",dir:"auto"},s.label(u));return c("tr",{},m,...h(u))});return[c("thead",{},c("tr",{},c("th",{scope:"col"},"token"),...l)),c("tbody",{},...p)]}var is=i=>i<0?"–":`no. ${i+1}`;function Kt(i,t,e,s){let n=c("span",{class:"bar"});return n.style.width=`${Math.min(100,e>0?Math.abs(t)/e*100:0)}%`,n.style.backgroundColor=s??T(M(i.palette,t<0?-.72:.72)),n}function we(i,t){let e=t.map(r=>xt(r.values,i.own)),s=t.map((r,o)=>c("th",{scope:"col"},be(o))),n=t.map((r,o)=>{let a=c("th",{scope:"row"},`${be(o)}  ${i.name(r.measured)}`),l=e.map((h,p)=>o===p?c("td",{class:"same"},"·"):as(i,Jt(e[o],h)));return c("tr",{},a,...l)});return c("table",{},c("thead",{},c("tr",{},c("td"),...s)),c("tbody",{},...n))}function as(i,t){if(Number.isNaN(t))return c("td",{},"–");let e=c("td",{},t.toFixed(2).replace("-","−")),s=M(i.palette,t*.9);return e.style.backgroundColor=T(s),e.style.color=nt(s),e}function be(i){return i<26?String.fromCharCode(97+i):String(i)}var ke=/[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;function xe(i){for(let t of i){let e=/\p{L}/u.exec(t.replace(/^[[<].*[\]>]$/,""));if(e)return ke.test(e[0])}return!1}function ls(i){return i.split(`
`).flatMap((t,e)=>{let s=e?[c("br")]:[];return t&&s.push(document.createTextNode(t.replace(/\s+/g," "))),s})}function ye(i){let t=new Map,e=i.unit==="segments";return i.text.segments?.forEach(([s,n,r],o)=>{e&&i.open.has(o)?t.set(s,c("div",{class:"fold","data-fold":o,"aria-hidden":"true",title:"Close"},`▾ ${Y(r??"")} ${n-s} tokens`)):!e&&r!==void 0&&t.set(s,c("div",{class:"segment-name"},Y(r)))}),t}var K=class{constructor(t,e,s=!1){this.handlers=e;this.ofTargets=s;this.grouping=null;this.items=[];this.shades=[];this.palette=null;this.marked=-1;this.inSight=null;this.element=c("div",{class:"reading",role:"listbox","aria-label":t,onclick:n=>this.at(n,r=>this.handlers.choose(r)),onmousemove:n=>this.over(n),onmouseleave:n=>this.handlers.point(null,n),onkeydown:n=>this.key(n),onfocusin:n=>this.at(n,r=>this.handlers.point(r,null)),onfocusout:()=>this.handlers.point(null,null)})}at(t,e){let s=t.target.closest("[data-fold]");s&&t.type==="click"&&this.handlers.close?.(Number(s.dataset.fold));let n=t.target.closest("[data-group]");n&&e(Number(n.dataset.group))}over(t){let e=t.target.closest("[data-group]"),s=e?Number(e.dataset.group):null;this.handlers.point(s,t)}key(t){let e=this.items.indexOf(t.target);if(e<0)return;let s=this.element.matches(":dir(rtl)")?"ArrowLeft":"ArrowRight",n=s==="ArrowRight"?"ArrowLeft":"ArrowRight",r={[s]:e+1,[n]:e-1,ArrowDown:e+1,ArrowUp:e-1,Home:0,End:this.items.length-1};if(t.key==="Enter"||t.key===" ")this.handlers.choose(e);else if(t.key in r){let o=Math.max(0,Math.min(this.items.length-1,r[t.key]));this.focus(o)}else return;t.preventDefault()}focus(t){for(let e of this.items)e.tabIndex===0&&(e.tabIndex=-1);this.items[t].tabIndex=0,this.items[t].focus()}show(t,e){t!==this.grouping&&(this.build(t,e),this.palette=null),e.palette!==this.palette&&(this.shades=new Array(t.size).fill(Number.NaN),this.palette=e.palette)}holds(t,{start:e,stop:s}){if(!this.ofTargets)return!0;for(let n=e;n<s;n++)if(t.current.holds(n))return!0;return!1}get isEmpty(){return!this.element.firstChild}build(t,e){let s=this.items.indexOf(this.element.getRootNode().activeElement);this.grouping=t,this.marked=-1;let{text:n}=t,r=[],o=ye(t);this.items=t.groups.map((h,p)=>{let u=e.isPatch(n,h.start)||!this.holds(e,h),m=o.get(h.start);m?r.push(m):!u&&h.segment===null&&r.push(...ls(n.gaps[h.start]));let d=t.special(p)&&!/mask/i.test(n.labels[h.start]),f=c("span",{class:["token",d&&"special",h.segment!==null&&"segment"].filter(Boolean).join(" "),role:"option",dir:"auto",tabindex:"-1","aria-selected":"false","data-group":p}),g=t.label(p);return f.append(g),h.segment!==null&&f.append(c("small",{},`${h.stop-h.start} tokens`),c("small",{})),u||r.push(f),!u&&g.endsWith("↵")&&r.push(c("br")),f}),this.element.replaceChildren(...r),this.element.dir=xe(n.shown)?"rtl":"ltr";let a=this.element.querySelectorAll(".token").length;this.element.dataset.size=a<=40?"large":a<=150?"middle":a<=700?"small":"tiny";let l=this.items[Math.max(0,s)]??this.items[0];l&&(l.tabIndex=0),s>=0&&l?.focus()}find(t){let e=this.items[t];if(!e)return;this.reveal(t),e.classList.remove("found"),e.offsetWidth,e.classList.add("found");let s=e.getBoundingClientRect();(s.top<0||s.bottom>window.innerHeight)&&e.scrollIntoView({block:"center"})}shadeBy(t,e,s,n,r){this.items.forEach((a,l)=>{let h=s>0&&l!==n?Math.round(e[l]/s*64)/64:0;if(this.shades[l]===h)return;this.shades[l]=h;let p=M(t.palette,h);a.style.backgroundColor=h===0?"":T(p),a.style.color=h===0?"":nt(p),this.grouping.groups[l].segment!==null&&(a.lastElementChild.textContent=v(e[l]))}),r&&n>=0&&this.inSight!==this.items[n]&&this.reveal(n),this.marked>=0&&this.items[this.marked]?.classList.remove("target","pointed"),this.marked=n;let o=this.items[n];if(o?.classList.add("target"),o?.classList.toggle("pointed",!r),r){let a=this.element.getRootNode().activeElement,l=a&&this.element.contains(a);this.items.forEach((h,p)=>{let u=String(p===n);h.getAttribute("aria-selected")!==u&&h.setAttribute("aria-selected",u),!l&&h.tabIndex===0!=(p===Math.max(0,n))&&(h.tabIndex=p===Math.max(0,n)?0:-1)})}}reveal(t){let e=this.items[t];this.inSight=e;let{element:s}=this,n=e.offsetTop-s.offsetTop,r=n<s.scrollTop,o=n+e.offsetHeight>s.scrollTop+s.clientHeight;(r||o)&&(s.scrollTop=n-s.clientHeight/2)}describe(t,e){this.items[t]?.setAttribute("aria-label",e)}paint(t,e,s,n,r,o,a,l){let h=this.grouping,{palette:p}=e,u=h.size<=40?22:h.size<=150?17:13,m=u*1.8,d=h.groups.map((x,C)=>S(t,h.label(C),u,r-12)),f=xe(h.text.shown),g=ye(h),b=0,w=n+m*.8;return d.forEach((x,C)=>{let{start:k}=h.groups[C];if(e.isPatch(h.text,k)||!this.holds(e,h.groups[C]))return;let N=g.get(k)?.textContent;N&&(w+=b>0?m:0,t.text(s,w,N,{size:12,fill:p.quiet}),[b,w]=[0,w+m]);let W=N?"":h.text.gaps[k],O=t.width(x,u)+8;b>0&&(W.includes(`
`)||b+O>r)?(b=0,w+=m):b>0&&W&&(b+=u*.16);let I=a>0&&C!==l?o[C]/a:0,ct=M(p,I),te=f?s+r-b-O:s+b,De=C===l?p.ink:void 0;t.rect(te,w-u*1.05,O,u*1.45,I?T(ct):null,De,2,5);let We=I?nt(ct):h.special(C)&&C!==l?p.quiet:p.ink;t.text(te+O/2,w,x,{size:u,fill:We,align:"center",rtl:ke.test(x)}),b+=O}),w+m*.5-n}};function Tt(i){let t=i.map(([s,n])=>`${E(s)} ${v(n)}`),e=t.pop()??"nothing";return t.length?`${t.join(", ")} and ${e}`:e}var Me=190,tt=22,Et=class{constructor(){this.headline=c("h1",{class:"answer"});this.choices=c("div",{class:"pair-choices"});this.names=[c("h2",{}),c("h2",{})];this.tops=[c("p",{class:"quiet"}),c("p",{class:"quiet"})];this.disputed=c("table",{class:"disputes"});this.matrix=c("div",{class:"wide matrix",tabindex:"0",role:"region","aria-label":"Agreement of measures"});this.leftOut=c("details",{class:"behind"});this.rowsShown=[];this.cell=10;this.left=Me;let t=()=>new K("The text: choose a target",{choose:s=>this.choose(s),close:s=>this.close(s),point:(s,n)=>this.point(s,n)});this.readings=[t(),t()],this.canvas=c("canvas",{role:"img",tabindex:"0",onmousemove:s=>this.over(s),onmouseleave:()=>this.context.actions.tip(null,[]),onclick:s=>this.pick(Math.floor(s.offsetY/tt))}),this.table=F("Measures",()=>this.rows());let e=s=>c("section",{class:"pair-side"},this.names[s],this.readings[s].element,this.tops[s]);this.element=c("div",{class:"compare-view"},this.headline,this.choices,c("div",{class:"pair"},e(0),e(1)),c("h2",{},"What they dispute"),this.disputed,c("h2",{},"Every measure, this target"),c("p",{class:"quiet hint"},"Each row is shaded by its own largest share. Point at a cell for its number, click a row to compare with it."),this.canvas,this.table,c("h2",{},"Rank agreement"),c("p",{class:"quiet hint"},"Spearman's rank correlation over all sources but the target itself."),this.matrix,this.leftOut)}choose(t){let{start:e,stop:s,segment:n}=this.context.sources.groups[t],{open:r}=this.context.state;if(n!==null)return this.context.actions.set({open:[...r,n]});if(this.context.current.square){for(let o=e;o<s;o++)if(this.context.current.holds(o))return this.context.actions.set({target:o,node:null})}}close(t){let e=this.context.state.open.filter(s=>s!==t);this.context.actions.set({open:e})}point(t,e){if(t===null||!e)return this.context.actions.tip(null,[]);let s=this.context.sources.label(t);this.context.actions.tip(e,[s,...this.pair().map(n=>`${this.context.name(n.measured)}: ${v(n.values[t])}`)])}pair(){let{state:t,measured:e}=this.context;return[t.map,t.other??t.map].map(s=>this.rowsShown.find(n=>n.measured===e[s])).filter(Boolean)}update(t){this.context=t,this.rowsShown=yt(t);let{state:e,measured:s}=t,n=kt(t,this.rowsShown);if(!n){this.refuse();return}this.element.classList.remove("alone");let r=this.rowsShown.map(o=>s.indexOf(o.measured));(e.other===null||e.other===e.map||!r.includes(e.other))&&(e.other=s.indexOf(n.measured)),this.choices.replaceChildren(D(`Compare ${t.name(t.current)} with`,r.filter(o=>o!==e.map).map(o=>[String(o),t.name(s[o])]),String(e.other),o=>t.actions.set({other:Number(o)}))),this.sides(),this.headlines(),this.disputed.replaceChildren(...ve(t,this.pair())),this.draw(),this.matrix.replaceChildren(we(t,this.rowsShown)),this.fillLeftOut(),q(this.table,()=>this.rows())}refuse(){this.element.classList.add("alone"),this.rowsShown=[];let{measure:t}=this.context.current.entry;this.headline.textContent=`Only ${t} holds this target here.`,this.choices.replaceChildren(c("p",{class:"quiet"},"Give the page several measures of the same text to see where they disagree: maps.to_html(path, *others), or mixlens compare … --html out.html."))}sides(){let{context:t}=this;this.pair().forEach(({measured:e,values:s},n)=>{let r=A(s,t.own);this.readings[n].show(t.sources,t),this.readings[n].shadeBy(t,s,r,t.own,!0),this.names[n].textContent=t.name(e);let o=$(s,t.own).slice(0,3).map(a=>[t.sources.label(a.group),a.value]);this.tops[n].textContent=`${e.depthName(t.depthFor(e))}: ${Tt(o)}`})}headlines(){let{context:t}=this,e=this.pair(),s=e.map(h=>h.values),n=at(t,e[0],e[1]),r=Q(s,t.own)[0],o=c("b",{class:"outlined"},P(t.targets.label(t.targetGroup))),[a,l]=e.map(h=>t.name(h.measured));this.headline.replaceChildren("About ",o,`, ${a} and ${l} ${Mt(n)} (rank correlation ${n.toFixed(2)})`),r&&this.headline.append(", most of all on ",c("b",{},P(t.sources.label(r.group))),`: ${v(s[0][r.group])} against ${v(s[1][r.group])}.`)}draw(){let t=this.element.clientWidth||900,e=this.height(t);this.painted(z(this.canvas,t,e),this.context,0),this.canvas.setAttribute("aria-label",`${this.rowsShown.length} measures by ${this.context.sources.size} sources: the shares of the target, as a heat map. A click compares with that measure.`)}height(t){return this.left=Math.min(Me,Math.round(t*.36)),this.cell=(t-this.left)/this.context.sources.size,this.rowsShown.length*tt+(this.cell>=13?74:6)}painted(t,e,s){let{palette:n,own:r,sources:o,state:a,measured:l}=e;this.rowsShown.forEach(({measured:p,values:u},m)=>{let d=s+m*tt,f=A(u,r)||1,g=p===l[a.map]||p===l[a.other??-1];t.text(this.left-10,d+15,S(t,e.name(p),13,this.left-16),{size:13,align:"right",fill:g?n.ink:n.quiet,weight:g?700:400});for(let b=0;b<o.size;b++){let w=b===r?0:u[b]/f;t.rect(this.left+b*this.cell,d,Math.max(this.cell-(this.cell>6?1:0),.6),tt-2,T(M(n,w)))}});let h=s+this.rowsShown.length*tt;r>=0&&this.cell>=3&&t.rect(this.left+r*this.cell,s-.5,this.cell-1,h-s-1,null,n.ink,1.5,2),this.cell>=13&&o.groups.forEach((p,u)=>t.text(this.left+(u+.5)*this.cell+4,h+12,S(t,o.label(u),12,88),{size:12,rotate:-45,align:"right",fill:u===r?n.ink:n.quiet,weight:u===r?700:400}))}over(t){let e=this.rowsShown[Math.floor(t.offsetY/tt)],s=Math.floor((t.offsetX-this.left)/this.cell),n=e&&s>=0&&s<this.context.sources.size;this.canvas.style.cursor=e?"pointer":"",this.context.actions.tip(n?t:null,n?[`${E(this.context.sources.label(s))}: ${v(e.values[s])}`,this.context.name(e.measured)]:[])}pick(t){let e=this.rowsShown[t]?.measured,s=e?this.context.measured.indexOf(e):-1;s>=0&&s!==this.context.state.map&&this.context.actions.set({other:s})}fillLeftOut(){let t=Object.entries(this.context.payload.left_out??{});this.leftOut.hidden=t.length===0,this.leftOut.replaceChildren(c("summary",{},`${t.length} measures left out`),c("dl",{},...t.flatMap(([e,s])=>[c("dt",{},e),c("dd",{},s)])))}paint(t,e,s){if(this.rowsShown.length<2)return 0;t.text(0,20,S(t,this.headline.textContent??"",16,s),{size:16,weight:600,fill:e.palette.ink});let n=40;this.pair().forEach(({measured:o,values:a},l)=>{t.text(0,n+14,e.name(o),{size:13,fill:e.palette.quiet}),n+=20+this.readings[l].paint(t,e,0,n+20,s,a,A(a,e.own),e.own)+10});let r=this.height(s);return this.painted(t,e,n),this.height(this.element.clientWidth||900),n+r}rows(){let{context:t,rowsShown:e}=this;return[["source",...e.map(s=>t.name(s.measured))],...t.sources.groups.map((s,n)=>[t.sources.label(n),...e.map(r=>r.values[n].toPrecision(3))])]}};function Te(i,t,e,s=i.entry.layers.length){let n=hs(i),{start:r,stop:o}=t.groups[e],a=new Float64Array(t.of.length),l=0;for(let u=r;u<o;u++)l+=n[s][u];for(let u=r;u<o;u++)a[u]=l>0?1/l:0;let h=Array.from({length:s+1},()=>new Float64Array(t.size));for(let u=r;u<o;u++)h[s][e]+=a[u]*n[s][u];let p=[];for(let u=s-1;u>=0;u--){let m=new Float64Array(a.length),d=new Map;for(let f=0;f<a.length;f++){if(a[f]===0)continue;let g=a[f];i.eachTransition(u,f,(b,w)=>{m[b]+=g*w;let x=t.of[b]*t.size+t.of[f];d.set(x,(d.get(x)??0)+g*w*n[u][b])})}for(let[f,g]of d){let b=Math.floor(f/t.size);h[u][b]+=g,g>1e-4&&p.push({level:u,source:b,target:f%t.size,value:g})}a=m}return{levels:s+1,mass:h,edges:p}}function hs(i){let t=i.sources.labels.length,e=[new Float64Array(t).fill(1)];return i.entry.layers.forEach((s,n)=>{let r=new Float64Array(t).fill(i.entry.joined?.normalise===!1?0:1);if(i.entry.joined?.normalise===!1)for(let o=0;o<t;o++)i.eachTransition(n,o,(a,l)=>{r[o]+=l*e[n][a]});e.push(r)}),e}function Ee(i,t,e){let s=[],n=i.mass.map(()=>[]);for(let o of i.edges)n[o.level].push(o);let r=new Float64Array(i.mass[t].length);r[e]=i.mass[t][e];for(let o=t-1;o>=0;o--){let a=new Float64Array(r.length);for(let l of n[o]){let h=i.mass[o+1][l.target],p=h>0?l.value*r[l.target]/h:0;p>0&&s.push({...l,value:p}),a[l.source]+=p}r=a}r=new Float64Array(r.length),r[e]=i.mass[t][e];for(let o=t;o<i.levels-1;o++){let a=new Float64Array(r.length);for(let l of n[o]){let h=i.mass[o][l.source],p=h>0?l.value*r[l.source]/h:0;p>0&&s.push({...l,value:p}),a[l.target]+=p}r=a}return s}var U=64,$e=40,Ce=92,cs=1200,Ct=class{constructor(){this.words=c("p",{class:"quiet","aria-live":"polite"});this.shown=c("output",{});this.flow=null;this.key="";this.width=0;this.step=54;this.at=null;this.canvas=j({over:t=>this.over(t),leave:()=>this.leave(),choose:()=>this.trace(),step:(t,e)=>this.walk(t,e)}),this.slider=c("input",{type:"range",min:"0",max:"100",step:"1","aria-label":"Smallest share that is drawn",oninput:()=>this.context.actions.set({threshold:us(Number(this.slider.value))})}),this.controls=c("label",{class:"field"},c("span",{},"Show from"),this.slider,this.shown),this.table=F("Flow",()=>this.rows()),this.element=c("div",{class:"flow-view"},c("div",{class:"bar-line"},this.words,this.controls),this.canvas,this.table)}update(t){this.context=t;let{current:e,state:s,targets:n}=t,r=this.refusal();if(this.canvas.hidden=this.table.hidden=this.controls.hidden=r!==null,r!==null){this.words.textContent=r;return}let o=this.depth(),a=[s.map,s.target,s.unit,s.open,n.size,o].join(" ");a!==this.key&&(this.key=a,this.flow=Te(e,n,n.of[s.target],o)),this.slider.value=String(ps(s.threshold)),this.shown.textContent=v(s.threshold),this.canvas.setAttribute("aria-label","The flow from the input tokens to the target. Arrow keys move between tokens and layers, Enter traces one."),this.draw(),q(this.table,()=>this.rows())}depth(){let{state:t,current:e}=this.context,s=typeof t.depth=="number"?t.depth:R(t.depth);return s===null?e.entry.layers.length:s+1}refusal(){let{current:t,targets:e}=this.context;return t.entry.reaches_input?`Each layer of ${t.entry.measure} already speaks of the input tokens: there is nothing to follow.`:!t.whole||!t.entry.joined?"A flow needs the maps of every layer for every token of one text. These hold some targets, some layers or two texts.":e.size>cs?"The text is too long to follow: choose words or segments above.":null}edges(){let{node:t,threshold:e}=this.context.state,s=this.flow;return(t&&t[0]<s.levels&&t[1]<this.context.targets.size?Ee(s,t[0],t[1]):s.edges).filter(o=>o.value>=e).sort((o,a)=>o.value-a.value)}x(t){return U+(t+.5)*(this.width-U-12)/this.context.targets.size}y(t){return $e+(this.flow.levels-1-t)*this.step}draw(){if(this.canvas.hidden||!this.flow)return;this.width=this.element.clientWidth||900,this.step=this.flow.levels>14?34:56;let t=this.y(0)+Ce,e=z(this.canvas,this.width,t);this.painted(e,this.context)}painted(t,e){let{palette:s,state:n,targets:r,current:o}=e,a=this.flow,l=this.edges(),h=o.entry.layers;for(let k=0;k<a.levels;k++){let N=k===0?"input":`${k===a.levels-1?"layer ":""}${h[k-1]}`;t.text(U-12,this.y(k)+4,N,{size:12,fill:s.quiet,align:"right"}),t.rect(U,this.y(k),this.width-U-12,.5,s.line)}let p=T(M(s,.78)),u=new Map,m=n.node&&a.mass[n.node[0]]?.[n.node[1]]||1;for(let k of l){let N=k.value/m,W=Math.max(.8,15*N);t.curve(this.x(k.source),this.y(k.level),this.x(k.target),this.y(k.level+1),W,p,Math.min(.9,.22+1.6*N));for(let[O,I]of[[k.level,k.source],[k.level+1,k.target]])u.set(`${O} ${I}`,a.mass[O][I])}let d=a.levels-1,f=r.of[n.target];u.set(`${d} ${f}`,1);for(let[k,N]of u){let[W,O]=k.split(" ").map(Number),I=n.node?.[0]===W&&n.node[1]===O,ct=this.at?.[0]===W&&this.at[1]===O;t.circle(this.x(O),this.y(W),2.5+5.5*Math.sqrt(N),p,I||ct?s.ink:s.paper)}let g=t.width(r.label(f),14,700)/2,b=Math.max(g,Math.min(this.width-g-2,this.x(f)));t.text(b,this.y(d)-16,r.label(f),{size:14,weight:700,fill:s.ink,align:"center"}),this.inputs(t,e,u);let w=n.node?` through ${E(r.label(n.node[1]))} at ${$t(n.node[0],h)}`:"",x=E(r.label(f)),C=n.node?a.mass[n.node[0]]?.[n.node[1]]??0:0;this.words.textContent=w?`${v(C)} of ${x} passes${w}. Click it again to see everything.`:`How ${x} is put together, from the input below to ${d===h.length?"the last layer":`layer ${h[d-1]}`} above. Click a point to trace what passes it.`}inputs(t,e,s){let{palette:n,targets:r}=e,o=(this.width-U)/r.size,a=r.groups.map((h,p)=>p).sort((h,p)=>this.flow.mass[0][p]-this.flow.mass[0][h]),l=[];for(let h of a){let p=this.x(h),u=s.has(`0 ${h}`);if(o<15&&(!u||l.some(d=>Math.abs(d-p)<15)))continue;l.push(p);let m=S(t,r.label(h),12,84);t.text(p+4,this.y(0)+18,m,{size:12,rotate:-50,align:"right",fill:u?n.ink:n.quiet,weight:u?600:400})}}over(t){let e=this.flow,s=e.levels-1-Math.round((t.offsetY-$e)/this.step),n=Math.round((t.offsetX-U)*this.context.targets.size/(this.width-U-12)-.5),r=s>=0&&s<e.levels&&n>=0&&n<this.context.targets.size;this.at=r?[s,n]:null,this.canvas.style.cursor=r?"pointer":"",this.context.actions.tip(r?t:null,this.sentence()),this.draw()}sentence(){if(!this.at)return[];let[t,e]=this.at,{context:s}=this,n=s.targets.label(s.targets.of[s.state.target]),{layers:r}=s.current.entry;return[`${E(s.targets.label(e))} at ${$t(t,r)}`,`${v(this.flow.mass[t][e])} of ${n} passes here`]}trace(){if(!this.at)return;let{node:t}=this.context.state,e=t&&t[0]===this.at[0]&&t[1]===this.at[1];this.context.actions.set({node:e?null:[...this.at]})}leave(){this.at=null,this.context.actions.tip(null,[]),this.draw()}walk(t,e){let{context:s}=this,[n,r]=this.at??[this.flow.levels-1,s.targets.of[s.state.target]];this.at=[L(n-e,this.flow.levels),L(r+t,s.targets.size)],s.actions.announce(this.sentence().join(", ")),this.draw()}paint(t,e,s){if(!this.flow||this.canvas.hidden)return 0;this.width=s,this.painted(t,e);let n=this.y(0)+Ce;return this.draw(),n}rows(){let{context:t}=this,e=t.current.entry.layers;return[["from","source","to","target","share of the target"],...this.edges().reverse().map(s=>[$t(s.level,e),t.targets.label(s.source),$t(s.level+1,e),t.targets.label(s.target),s.value.toPrecision(3)])]}};function $t(i,t){return i===0?"the input":`layer ${t[i-1]}`}function us(i){return Number((.001*500**(i/100)).toPrecision(2))}function ps(i){return Math.round(Math.log(Math.max(i,.001)/.001)/Math.log(500)*100)}var At=255,Ae=new Map;function ds(i){let t=Ae.get(i);if(!t){t=new Uint32Array(2*At+1);for(let e=0;e<t.length;e++){let[s,n,r]=M(i,(e-At)/At);t[e]=(255<<24|r<<16|n<<8|s)>>>0}Ae.set(i,t)}return t}function et(i,t,e,s,n){let r=document.createElement("canvas");r.width=s,r.height=e;let o=r.getContext("2d"),a=o.createImageData(s,e),l=new Uint32Array(a.data.buffer),h=ds(i);for(let p=0;p<t.length;p++){let u=Math.max(-1,Math.min(1,t[p]/n));l[p]=h[Math.round((u+1)*At)]}return o.putImageData(a,0,0),r}function lt(i,t,e){let s=1e-12;for(let n=0;n<i.length;n++)e&&Math.floor(n/t)===n%t||(s=Math.max(s,Math.abs(i[n])));return s}var st=58,Lt=24,B=6,ms=400,St=class{constructor(){this.words=c("p",{class:"quiet"});this.tile=64;this.pictures=[];this.key="";this.at=null;this.canvas=j({over:t=>this.over(t),leave:()=>this.pointAt(null,null),choose:()=>this.enter(),step:(t,e)=>this.walk(t,e)}),this.table=F("Heads",()=>this.rows()),this.whole=c("button",{type:"button",onclick:()=>this.context.actions.set({head:null})},"Back to whole layers"),this.element=c("div",{class:"heads-view"},c("div",{class:"bar-line"},this.words,this.whole),this.canvas,this.table)}update(t){this.context=t;let{current:e,measured:s}=t,n=a=>a.heads>0&&a.targets===e.targets&&a.sources===e.sources;this.shown=e.heads?e:s.find(n)??e;let r=this.shown.heads===0;if(this.canvas.hidden=this.table.hidden=r,this.whole.hidden=t.state.head===null,r){let a=e.entry.notes?.find(l=>l.includes("heads are left out"));this.words.textContent=a??`Single heads are not in this page. They are if it is also given lens.measure("${e.entry.measure}", text, per_head=True).`;return}let o=this.shown===e?"":`${t.name(e)} was measured by whole layers. These are the heads of ${t.name(this.shown)}. `;this.words.textContent=`${o}Layers down, heads across. In each, targets down and sources across, shaded by its own largest share. A click opens one.`,this.prepare(),this.canvas.setAttribute("aria-label",`${this.shown.entry.layers.length} layers by ${this.shown.heads} heads. Arrow keys move, Enter opens a head.`),this.draw(),q(this.table,()=>this.rows())}prepare(){let{context:t,shown:e}=this,{targets:s,sources:n,palette:r,state:o}=t,a=[t.measured.indexOf(e),r.dark,s.size,n.size,o.unit].join(" ");if(a===this.key)return;this.key=a;let l=[...new Set(e.held.map(h=>s.of[h]))].sort((h,p)=>h-p).slice(0,ms);this.pictures=e.entry.layers.flatMap((h,p)=>Array.from({length:e.heads},(u,m)=>{let d=new Float32Array(l.length*n.size);l.forEach((g,b)=>d.set(e.incoming({depth:p,head:m},s,g,n),b*n.size));let f=lt(d,n.size,e.square&&l.length===n.size);return et(r,d,l.length,n.size,f)}))}size(t){let{heads:e,entry:s}=this.shown;return this.tile=Math.max(18,Math.min(132,(t-st)/e-B)),[st+e*(this.tile+B),Lt+s.layers.length*(this.tile+B)]}draw(){if(this.canvas.hidden)return;let[t,e]=this.size(this.element.clientWidth||900);this.painted(z(this.canvas,t,e),this.context)}painted(t,e){let{palette:s,state:n}=e,{tile:r,shown:o}=this,a={size:12,fill:s.quiet};for(let l=0;l<o.heads;l++)t.text(st+l*(r+B)+r/2,Lt-9,l===0?"head 0":String(l),{...a,align:"center"});o.entry.layers.forEach((l,h)=>{let p=Lt+h*(r+B);t.text(st-10,p+r/2+4,h===0?`layer ${l}`:String(l),{...a,align:"right"});for(let u=0;u<o.heads;u++){let m=st+u*(r+B);t.image(this.pictures[h*o.heads+u],m,p,r,r);let f=o===e.current&&n.head===u&&n.depth===h,g=this.at?.[0]===h&&this.at[1]===u;t.rect(m,p,r,r,null,f||g?s.ink:s.line,f?3:g?2:1)}})}over(t){let e=Math.floor((t.offsetX-st)/(this.tile+B)),s=Math.floor((t.offsetY-Lt)/(this.tile+B)),{heads:n,entry:r}=this.shown,o=e>=0&&s>=0&&e<n&&s<r.layers.length;this.pointAt(o?[s,e]:null,t)}pointAt(t,e){this.at=t,this.canvas.style.cursor=t?"pointer":"",this.context.actions.tip(t?e:null,this.sentence()),this.draw()}sentence(){if(!this.at)return[];let[t,e]=this.at,{context:s}=this,n=s.incoming(this.shown,{depth:t,head:e}),r=$(n,s.own).slice(0,3),o=s.targets.label(s.targetGroup);return[`Layer ${this.shown.entry.layers[t]}, head ${e}`,...r.map(({group:a,value:l})=>`${E(s.sources.label(a))}: ${v(l)} of ${E(o)}`)]}enter(){if(!this.at)return;let t=this.context.measured.indexOf(this.shown);this.context.actions.set({map:t,depth:this.at[0],head:this.at[1],view:"map"})}walk(t,e){let[s,n]=this.at??[0,-1],{entry:r,heads:o}=this.shown;this.at=[L(s+e,r.layers.length),L(n+t,o)],this.context.actions.announce(this.sentence().join(", ")),this.draw()}paint(t,e,s){if(!this.shown.heads)return 0;this.prepare();let[,n]=this.size(s);return this.painted(t,e),n}rows(){let{context:t,shown:e}=this,s=t.targets.label(t.targetGroup),n=[["layer","head","target","largest source","share"]];return e.entry.layers.forEach((r,o)=>{for(let a=0;a<e.heads;a++){let l=t.incoming(e,{depth:o,head:a}),h=$(l,t.own)[0];n.push([String(r),String(a),s,h?t.sources.label(h.group):"",A(l,t.own).toPrecision(3)])}}),n}};var fs=2500,y=108,Yt=10,zt=class{constructor(){this.spacer=c("div",{class:"spacer"});this.words=c("p",{class:"quiet"});this.values=new Float32Array;this.picture=null;this.key="";this.cell=16;this.zoom=1;this.at=null;this.canvas=j({over:e=>this.over(e),leave:()=>this.moved(null,null),choose:()=>this.choose(),step:(e,s)=>this.walk(e,s)}),this.scroller=c("div",{class:"scroller",onscroll:()=>this.draw()},this.canvas,this.spacer),this.table=F("Map",()=>this.rows());let t=c("label",{class:"field"},c("span",{},"Zoom"),c("input",{type:"range",min:"1",max:"12",step:"0.5",value:"1",oninput:e=>{this.zoom=Number(e.target.value),this.layout()}}));this.element=c("div",{class:"map-view"},c("div",{class:"bar-line"},this.words,t),this.scroller,this.table)}update(t){this.context=t;let{targets:e,sources:s,current:n,state:r}=t,o=this.held();if(Math.max(o.length,s.size)>fs){this.words.textContent=`${o.length} × ${s.size} cells are too many to see: choose words or segments above.`,this.scroller.hidden=!0;return}this.scroller.hidden=!1;let a=[r.map,r.depth,r.head,t.palette.dark,e.size,s.size,r.unit,r.open].join(" ");if(a!==this.key){this.key=a;let l=new Float32Array(o.length*s.size);o.forEach((u,m)=>l.set(n.incoming(t.choice,e,u,s),m*s.size)),this.values=l;let h=lt(l,s.size,n.square&&o.length===s.size);this.picture=et(t.palette,l,o.length,s.size,h);let p=t.palette.dark?"brightest":"darkest";this.words.textContent=`Targets down, sources across. The ${p} cell off the diagonal is ${v(h)} of its target.`}this.canvas.setAttribute("aria-label",`Map of ${o.length} targets by ${s.size} sources. Arrow keys move, Enter chooses the target.`),this.layout(),q(this.table,()=>this.rows())}held(){let{targets:t,current:e}=this.context;return[...new Set(e.held.map(n=>t.of[n]))].sort((n,r)=>n-r)}layout(){if(this.scroller.hidden)return;let{sources:t}=this.context,e=this.held().length,s=Math.max(200,this.scroller.clientWidth||900)-y-16,n=Math.max(240,window.innerHeight*.7)-y,r=Math.min(44,s/t.size,Math.max(n/e,7));this.cell=Math.max(r,1)*this.zoom;let[o,a]=[t.size*this.cell+y+Yt,e*this.cell+y+Yt],l=Math.max(320,window.innerHeight*.78);this.scroller.style.height=`${Math.min(a+18,l)}px`,this.spacer.style.width=`${o}px`,this.spacer.style.height=`${a}px`,this.draw()}draw(){let t=this.scroller.clientWidth,e=this.scroller.clientHeight;if(!t||!this.picture)return;let s=z(this.canvas,t,e);this.painted(s,this.context,this.cell,this.scroller.scrollLeft,this.scroller.scrollTop,t,e)}painted(t,e,s,n,r,o,a){let{palette:l,sources:h,targets:p}=e,u=this.held();t.image(this.picture,y-n,y-r,h.size*s,u.length*s);let m=u.indexOf(e.targets.of[e.state.target]);if(m>=0&&t.rect(y-n,y-r+m*s,h.size*s,Math.max(s,2),null,l.ink,1.5),this.at){let[f,g]=this.at;t.rect(y-n+g*s,y-r+f*s,Math.max(s,2),Math.max(s,2),null,l.ink,2)}t.rect(0,0,y-2,a,l.paper),t.rect(0,0,o,y-2,l.paper);let d=Math.max(1,Math.ceil(12/s));this.names(t,p,u,d,s,(f,g,b)=>{let w=y-r+(f+.5)*s;w>y-4&&w<a&&t.text(y-8,w+4,S(t,g,12,y-14),{size:12,align:"right",fill:b?l.ink:l.quiet,weight:b?700:400})},this.at?.[0]??-1,m),this.names(t,h,h.groups.map((f,g)=>g),d,s,(f,g,b)=>{let w=y-n+(f+.5)*s;w>y-4&&w<o&&t.text(w+4,y-8,S(t,g,12,y+6),{size:12,rotate:-60,fill:b?l.ink:l.quiet,weight:b?700:400})},this.at?.[1]??-1,-1),t.rect(0,0,y-14,y-30,l.paper)}names(t,e,s,n,r,o,a,l){s.forEach((h,p)=>{let u=a>=0&&Math.abs(p-a)*r<12&&p!==a;(p===a||p===l||p%n===0&&!u)&&o(p,e.label(h),p===a||p===l)})}over(t){let e=Math.floor((t.offsetX-y+this.scroller.scrollLeft)/this.cell),s=Math.floor((t.offsetY-y+this.scroller.scrollTop)/this.cell),n=t.offsetX>=y&&t.offsetY>=y&&s<this.held().length&&e<this.context.sources.size;this.moved(n?[s,e]:null,t)}moved(t,e){this.at=t;let s=this.sentence();this.context.actions.tip(t?e:null,s),this.canvas.style.cursor=t?"pointer":"",this.draw()}sentence(){if(!this.at)return[];let{context:t}=this,[e,s]=this.at,n=this.held()[e],r=this.values[e*t.sources.size+s],o=t.current.total(t.choice,t.targets.groups[n].start),a=[`${E(t.sources.label(s))} → ${E(t.targets.label(n))}`,v(r)];return o!==null&&t.state.unit==="tokens"&&a.push(`score ${(r*o).toPrecision(3)}`),a}choose(){if(!this.at)return;let{start:t,stop:e}=this.context.targets.groups[this.held()[this.at[0]]];for(let s=t;s<e;s++)if(this.context.current.holds(s))return this.context.actions.set({target:s,node:null})}walk(t,e){let[s,n]=this.at??[0,-1];this.at=[L(s+e,this.held().length),L(n+t,this.context.sources.size)],this.context.actions.announce(this.sentence().join(", ")),this.draw()}paint(t,e,s){let{sources:n}=e,r=this.held().length,o=Math.min(28,Math.max(1,(s-y)/n.size)),a=this.at;this.at=null;let l=r*o+y;if(n.size*r<=4e3){this.painted(t,e,o,0,0,s,l+2),this.cells(t,e,o,r);let h=this.held().indexOf(e.targets.of[e.state.target]),[p,u]=[y+h*o,n.size*o];h>=0&&t.rect(y,p,u,o,null,e.palette.ink,1.5)}else this.painted(t,e,o,0,0,s,l+2);return this.at=a,l+Yt}cells(t,e,s,n){let r=e.sources.size,o=lt(this.values,r,e.current.square&&n===r);for(let a=0;a<this.values.length;a++){let l=Math.max(-1,Math.min(1,this.values[a]/o));t.rect(y+a%r*s,y+Math.floor(a/r)*s,s-.5,s-.5,T(M(e.palette,l)))}}rows(){let{context:t}=this,e=t.sources.size;return[["target",...t.sources.groups.map((s,n)=>t.sources.label(n))],...this.held().map((s,n)=>[t.targets.label(s),...Array.from(this.values.subarray(n*e,(n+1)*e),r=>r.toPrecision(3))])]}};function Le(i,t){let e=Object.entries(i.evaluations),[s,...n]=i.verdict.split(`
`),r=c("tr",{},c("th",{scope:"col"},"measure"),c("th",{scope:"col"},"mean rank"),...e.map(([a,{direction:l}])=>c("th",{scope:"col"},a.replaceAll("_"," "),c("small",{},l==="neither"?"":`${l} is better`)))),o=i.measures.map(({measure:a,mean_rank:l})=>c("tr",{class:a==="random"?"baseline":null},c("th",{scope:"row"},a),c("td",{},Pt(l)),...e.map(([,{measures:h}])=>gs(h[a],Object.values(h),t,a==="random"))));return c("div",{class:"ranking-view"},c("h1",{class:"answer"},s??""),...n.map(a=>c("p",{},a)),c("p",{class:"quiet hint"},`${i.texts} texts. Dots lie between the lowest and the highest value of the column, with their 95 % interval. Bold is best, grey italics are not better than random numbers.`),c("div",{class:"wide",tabindex:"0",role:"region","aria-label":"Ranked measures"},c("table",{class:"ranks"},c("thead",{},r),c("tbody",{},...o))),c("h2",{},"What was asked"),c("dl",{},...e.flatMap(([a,{summary:l}])=>[c("dt",{},a.replaceAll("_"," ")),c("dd",{},l)])))}function Pt(i){return i==null?"–":i.toFixed(2).replace("-","−")}function gs(i,t,e,s){if(!i||i.value===null)return c("td",{},"–");let n=t.flatMap(d=>[d.low,d.high,d.value]).filter(d=>d!==null),[r,o]=[Math.min(...n),Math.max(...n)],a=d=>o>r?(d-r)/(o-r)*100:50,l=c("span",{class:"interval"});l.style.left=`${a(i.low??i.value)}%`,l.style.width=`${a(i.high??i.value)-a(i.low??i.value)}%`;let h=c("span",{class:"dot"});h.style.left=`${a(i.value)}%`;let p=s||i.not_better_than_random;h.style.backgroundColor=p?e.quiet:T(M(e,.75));let u=i.is_best?"best":i.not_better_than_random?"luck":null,m=i.low===null?"":`${Pt(i.low)} to ${Pt(i.high)}`;return c("td",{class:u,title:m},Pt(i.value),c("span",{class:"scale","aria-hidden":"true"},l,h))}var Se=3;function ze(i){return[vs(i),ws(i)].filter(t=>t!==null)}function bs(i){let{current:t,state:e}=i,[s,n]=[i.fine(t.targets),i.fine(t.sources)],r=s.of[e.target],o=new Map;return t.entry.layers.forEach((a,l)=>{let h=t.incoming({depth:l,head:e.head},s,r,n);for(let p of $(h,t.square?r:-1).slice(0,Se))Math.abs(p.value)>Math.abs(o.get(p.group)?.value??0)&&o.set(p.group,{label:n.label(p.group),layer:a,value:p.value})}),[...o.values()].sort((a,l)=>Math.abs(l.value)-Math.abs(a.value)).slice(0,Se)}function vs(i){let{entry:t}=i.current,e=t.layers.length>1?bs(i):[];if(!e.length)return null;let s=e.map(({label:n,layer:r,value:o})=>[c("b",{},P(n)),` (${v(o)} ${t.reaches_input?"up to":"in"} layer ${r})`]);return c("p",{},"Layer by layer, most came from ",...bt(s),".")}function ws(i){let t=yt(i),e=kt(i,t),s=t.find(m=>m.measured===i.current);if(!e||!s)return null;let n=at(i,s,e),r=t.length-1,o=c("b",{},i.name(e.measured)),a=` (rank correlation ${n.toFixed(2).replace("-","−")})`,l=r===1?[o,` ${Mt(n).replace("agree","agrees")}${a}`]:[`Of ${r} other measures `,o,` agrees least${a}`],h=Q([s.values,e.values],i.own)[0];h&&l.push(...xs(i,h.group,s.values,e.values));let p=i.measured.indexOf(e.measured),u=()=>i.actions.set({view:"compare",other:p});return c("p",{},...l,". ",c("button",{type:"button",class:"link",onclick:u},"Compare"))}function xs(i,t,e,s){let n=c("b",{},P(i.sources.label(t))),r=` ${v(s[t])} instead of ${v(e[t])}`;return[": it gives ",n,r]}var H=64,ys=7,Ot=class{constructor(){this.name=c("h2",{});this.other=c("button",{type:"button",class:"turn",onclick:()=>this.turn()});this.strips=[];this.rowHeight=18;this.cell=1;this.canvas=c("canvas",{tabindex:"0",role:"img",onmousemove:t=>this.over(t),onmouseleave:()=>this.context.actions.tip(null,[]),onclick:t=>this.choose(this.hit(t)?.strip??-1),onkeydown:t=>this.key(t)}),this.table=F("Layers",()=>this.rows()),this.element=c("section",{class:"layers","aria-label":"Layer by layer"},c("div",{class:"layers-head"},this.name,this.other),this.canvas,this.table)}update(t){this.context=t;let{current:e}=t;if(this.element.hidden=e.entry.layers.length<2,this.element.hidden)return;let s=this.joined(),n=s?[...e.upTo]:e.entry.layers.map((h,p)=>p);e.depths.includes("all")?n.push("all"):e.depths.includes("mean")&&n.push("mean"),this.strips=n.map(h=>({depth:h,name:h==="all"||h==="mean"?h:String(e.entry.layers[R(h)??Number(h)]),values:t.incoming(e,{depth:h,head:typeof h=="number"?t.state.head:null})}));let r=this.element.clientWidth||640,o=this.height(r);this.draw(z(this.canvas,r,o),r);let a=t.targets.label(t.targetGroup),l=s?" has taken up to each layer":" took in each layer";this.name.replaceChildren("What ",c("b",{},P(a)),l),this.other.hidden=e.upTo.length===0,this.other.textContent=s?"Each layer by itself":"Up to each layer",this.canvas.setAttribute("aria-label",`What ${E(a)}${l}, as a heat map: ${this.strips.length} rows, ${t.sources.size} columns. Arrow keys up and down choose a layer.`),q(this.table,()=>this.rows())}joined(){let{state:t,current:e}=this.context;return typeof t.depth=="number"||!e.upTo.length?!1:t.rows==="upto"||R(t.depth)!==null}turn(){let{state:t,actions:e}=this.context,s=this.joined(),{depth:n}=t,r=typeof n=="number"?n:R(n),o=this.context.current.entry.layers.length-1,a=r===null||r===o?"all":`to${r}`;e.set({rows:s?"each":"upto",head:null,depth:s?r??n:r===null?n:a})}height(t){let e=this.strips.length;return this.rowHeight=e>40?7:e>16?11:18,this.cell=(t-H)/this.context.sources.size,this.top(e)+this.labels(t)}top(t){let e=this.strips.length-1,s=this.strips[e]?.depth==="all"||this.strips[e]?.depth==="mean";return t*this.rowHeight+(s&&t>=e?ys:0)}labels(t){return this.cell<13?this.context.current.sources.seconds?18:4:this.slanted(t)?74:20}slanted(t){let e=new J(this.canvas.getContext("2d")),s=(t-H)/this.context.sources.size;return this.context.sources.groups.some((n,r)=>e.width(this.context.sources.label(r),12)>s-4)}draw(t,e,s=0){let{context:n,strips:r,rowHeight:o}=this,{palette:a,own:l,state:h}=n,p=d=>d.depth==="all"||d.depth==="mean",u=d=>Math.max(1e-12,...r.filter(f=>p(f)===d).map(f=>A(f.values,l))),m=[u(!1),u(!0)];r.forEach((d,f)=>{let g=s+this.top(f),b=d.depth===h.depth,w=m[p(d)?1:0],x=o>=13?1:o>=10?2:4;(f%x===0||b||p(d))&&t.text(H-10,g+o/2+4,`${f===0?this.joined()?"up to ":"layer ":""}${d.name}`,{size:12,fill:b?a.ink:a.quiet,weight:b?700:400,align:"right"}),this.cells(t,d.values,l,w,g),b&&t.rect(H-1,g-1,e-H+1,o+.5,null,a.ink,1.5,3)}),this.drawColumns(t,e,s)}cells(t,e,s,n,r){let{context:o,cell:a,rowHeight:l}=this,h=d=>Math.max(-1,Math.min(1,d/n));if(a>=6){e.forEach((d,f)=>{let g=T(M(o.palette,h(d)));t.rect(H+f*a,r,a-1,l-1.5,g)});return}let p=Math.max(1,Math.round(1.5/a)),u=new Float32Array(Math.ceil(e.length/p));e.forEach((d,f)=>{let g=Math.floor(f/p);f!==s&&Math.abs(d)>Math.abs(u[g])&&(u[g]=d)});let m=et(o.palette,u,1,u.length,n);t.image(m,H,r,a*p*u.length,l-1.5)}drawColumns(t,e,s){let{context:n,cell:r}=this,{palette:o,own:a,sources:l}=n,h=s+this.top(this.strips.length)-1,p=n.current.sources.seconds;if(p){let m=Xt(p*l.size);for(let d=0;d<=p*l.size;d+=m)t.text(H+d/p*r,h+14,`${Number(d.toFixed(2))} s`,{size:11,fill:o.quiet,align:d+m>p*l.size?"right":d?"center":"left"});return}if(a>=0&&r>=3&&t.rect(H+a*r-.5,s-.5,r,h-s+.5,null,o.ink,1.5,2),r<13)return;let u=this.slanted(e);l.groups.forEach((m,d)=>{let f=H+(d+.5)*r,g={size:12,fill:d===a?o.ink:o.quiet,weight:d===a?700:400},b=S(t,l.label(d),12,u?88:r);u?t.text(f+4,h+12,b,{...g,align:"right",rotate:-45}):t.text(f,h+15,b,{...g,align:"center"})})}hit(t){let e=this.strips.findIndex((n,r)=>t.offsetY>=this.top(r)&&t.offsetY<this.top(r)+this.rowHeight),s=Math.floor((t.offsetX-H)/this.cell);return e<0?null:{strip:e,group:s>=0&&s<this.context.sources.size?s:-1}}over(t){let e=this.hit(t);if(this.canvas.style.cursor=e?"pointer":"",!e||e.group<0)return this.context.actions.tip(null,[]);let{strip:s,group:n}=e,{context:r}=this,o=this.strips[s].values[n],a=r.targets.label(r.targetGroup);r.actions.tip(t,[`${E(r.sources.label(n))}: ${v(o)} of ${E(a)}`,r.current.depthName(this.strips[s].depth)])}choose(t){let e=this.strips[t]?.depth;e!==void 0&&this.context.actions.set({depth:e,head:typeof e=="number"?this.context.state.head:null})}key(t){let e={ArrowUp:-1,ArrowDown:1}[t.key];if(!e)return;t.preventDefault();let s=this.strips.findIndex(r=>r.depth===this.context.state.depth),n=Math.max(0,Math.min(this.strips.length-1,s+e));this.choose(n),this.context.actions.announce(this.context.current.depthName(this.strips[n].depth))}paint(t,e,s,n){if(this.element.hidden)return 0;let r=this.height(n);return this.draw(t,n,s),r}rows(){let{sources:t}=this.context;return[["source",...this.strips.map(e=>this.context.current.depthName(e.depth))],...t.groups.map((e,s)=>[t.label(s),...this.strips.map(n=>n.values[s].toPrecision(3))])]}};function Xt(i){let t=i/6,e=10**Math.floor(Math.log10(t));return([1,2,5,10].find(s=>s*e>=t)??10)*e}var Pe=420,Ht=class{constructor(){this.picture=new Image;this.grey=null;this.context=null;this.values=[];this.scale=0;this.at=null;this.canvas=j({over:t=>this.pointAt(this.patch(t),t),leave:()=>this.pointAt(null,null),choose:()=>this.choose(),step:(t,e)=>this.walk(t,e)}),this.canvas.setAttribute("aria-label","The picture, its patches shaded by their share; the ranked list has the numbers. Arrow keys move, Enter chooses a patch."),this.element=c("figure",{class:"picture"},this.canvas),this.picture.addEventListener("load",()=>{this.grey=ks(this.picture),this.draw()})}show(t,e,s){let{image:n}=t.payload;n&&(Object.assign(this,{context:t,values:e,scale:s}),this.picture.src!==n.src&&(this.picture.src=n.src),this.draw())}size(t){let e=(this.picture.naturalHeight||1)/(this.picture.naturalWidth||1),s=Math.min(t,Pe,Pe/e);return[s,s*e]}draw(){if(!this.context||!this.picture.naturalWidth)return;let[t,e]=this.size(this.element.clientWidth||420);this.painted(z(this.canvas,t,e),this.context,0,0,t,e)}painted(t,e,s,n,r,o){let{rows:a,columns:l,first:h}=e.payload.image,{sources:p,own:u}=e;t.image(this.grey??this.picture,s,n,r,o,!0);let[m,d]=[r/l,o/a];for(let f=0;f<a*l;f++){let g=p.of[h+f];if(g===void 0)break;let b=this.scale>0?this.values[g]/this.scale:0,[w,x]=[s+f%l*m,n+Math.floor(f/l)*d],C=Math.min(.85,Math.abs(b)*.85),k=T(M(pt,b<0?-.75:.75)).replace(")",`, ${C})`);t.rect(w,x,m,d,k),g===u?t.rect(w+1,x+1,m-2,d-2,null,"#ffffff",3):h+f===this.at&&t.rect(w,x,m,d,null,"#ffffff",1.5)}}patch(t){let{context:e}=this;if(!e)return null;let{rows:s,columns:n,first:r}=e.payload.image,o=Math.floor(t.offsetX/this.canvas.clientWidth*n),a=Math.floor(t.offsetY/this.canvas.clientHeight*s);return r+a*n+o}pointAt(t,e){this.at=t,this.context?.actions.tip(e,this.words()),this.draw()}words(){let{context:t,at:e}=this;if(!t||e===null)return[];let{columns:s,first:n}=t.payload.image,r=t.sources.of[e]??0;return[`Patch in ${`row ${Math.floor((e-n)/s)}, column ${(e-n)%s}`}`,`${v(this.values[r]??0)} of the target`]}choose(){let{context:t,at:e}=this;t&&e!==null&&t.current.square&&t.current.holds(e)&&t.actions.set({target:e,node:null})}walk(t,e){let{context:s}=this;if(!s)return;let{rows:n,columns:r,first:o}=s.payload.image,a=this.at===null?0:this.at-o,l=L(a%r+(this.at===null?0:t),r),h=L(Math.floor(a/r)+(this.at===null?0:e),n);this.pointAt(o+h*r+l,null),s.actions.announce(this.words().join(", "))}paint(t,e,s,n,r,o,a){Object.assign(this,{values:o,scale:a});let[l,h]=this.size(r);return this.painted(t,e,s,n,l,h),h}};function ks(i){let t=document.createElement("canvas");t.width=i.naturalWidth,t.height=i.naturalHeight;let e=t.getContext("2d");e.drawImage(i,0,0);let s=e.getImageData(0,0,t.width,t.height);for(let n=0;n<s.data.length;n+=4){let[r,o,a]=s.data.subarray(n,n+3);s.data.fill(.3*r+.59*o+.11*a,n,n+3)}return e.putImageData(s,0,0),t}var V=120,Oe=22,Nt=class{constructor(){this.context=null;this.values=[];this.scale=0;this.at=null;this.canvas=j({over:t=>this.over(t),leave:()=>this.pointAt(null,null),choose:()=>this.choose(),step:t=>this.walk(t)}),this.canvas.setAttribute("aria-label","The share of each frame over time; the ranked list has the numbers. Arrow keys move, Enter chooses a frame."),this.element=c("figure",{class:"strip"},this.canvas)}show(t,e,s){t.current.sources.seconds&&(Object.assign(this,{context:t,values:e,scale:s}),this.draw())}draw(){if(!this.context)return;let t=this.element.clientWidth||640;this.painted(z(this.canvas,t,V+Oe),this.context,0,0,t)}painted(t,e,s,n,r){let{palette:o}=e,a=e.current.sources.seconds,l=r/this.values.length;for(let u=0;u<this.values.length;u++){let m=this.scale>0?this.values[u]/this.scale:0,d=Math.max(1,Math.abs(m)*V),f=T(M(o,.25*Math.sign(m||1)+.75*m)),g=Math.max(l-(l>4?1:0),.7);u===e.own?t.rect(s+u*l-1,n,g+2,V,null,o.ink):u===this.at&&t.rect(s+u*l,n,g,V,o.band),u!==e.own&&t.rect(s+u*l,n+V-d,g,d,f)}t.rect(s,n+V,r,1,o.quiet);let h=a*this.values.length,p=Xt(h);for(let u=0;u<=h+1e-9;u+=p)t.text(s+u/h*r,n+V+16,`${Number(u.toFixed(2))} s`,{size:12,fill:o.quiet,align:u===0?"left":u+p>h?"right":"center"})}over(t){let e=Math.floor(t.offsetX/this.canvas.clientWidth*this.values.length);this.pointAt(L(e,this.values.length),t)}pointAt(t,e){this.at=t,this.context?.actions.tip(e,this.words()),this.draw()}words(){let{context:t,at:e}=this;return!t||e===null?[]:[t.sources.label(e),`${v(this.values[e])} of the target`]}choose(){let{context:t,at:e}=this;if(!t||e===null||!t.current.square)return;let{start:s}=t.sources.groups[e];t.current.holds(s)&&t.actions.set({target:s,node:null})}walk(t){this.pointAt(L(this.at===null?0:this.at+t,this.values.length),null),this.context?.actions.announce(this.words().join(", "))}paint(t,e,s,n,r,o,a){return Object.assign(this,{values:o,scale:a}),this.painted(t,e,s,n,r),V+Oe}};var Rt=12,Ms=6,jt=class{constructor(){this.answer=c("h1",{class:"answer"});this.facts=c("div",{class:"facts"});this.legend=c("p",{class:"legend"});this.picture=new Ht;this.strip=new Nt;this.sourceName=c("h2",{},"Source");this.targetName=c("h2",{},"Target");this.layers=new Ot;this.inList=c("table",{class:"ranked"});this.outList=c("table",{class:"ranked"});this.outName=c("h2",{});this.inName=c("h2",{});this.rest=c("p",{class:"quiet"});this.pointedSource=null;this.sourceText=new K("The text: choose a target",{choose:t=>this.choose(t,!0),point:(t,e)=>this.point(t,e,!0),close:t=>this.close(t)}),this.targetText=new K("The target side: choose a target",{choose:t=>this.choose(t,!1),point:(t,e)=>this.point(t,e,!1),close:t=>this.close(t)},!0),this.element=c("div",{class:"text-view"},this.answer,this.facts,c("div",{class:"columns"},c("div",{class:"main"},this.targetName,this.targetText.element,this.sourceName,this.picture.element,this.strip.element,this.sourceText.element,this.legend,this.layers.element),c("aside",{class:"side","aria-label":"Ranked sources"},this.inName,this.inList,this.rest,this.outName,this.outList)))}choose(t,e){let{context:s}=this,n=e?s.sources:s.targets,{start:r,stop:o,segment:a}=n.groups[t];if(a!==null){s.actions.set({open:[...s.state.open,a]});return}if(!(e&&!s.current.square)){for(let l=r;l<o;l++)if(s.current.holds(l)){s.actions.set({target:l,node:null}),s.actions.announce(this.sentence());return}}}find(t){let{segment:e,start:s}=this.context.sources.groups[t];e!==null&&this.choose(t,!0),this.sourceText.find(this.context.sources.of[s])}close(t){let e=this.context.state.open.filter(s=>s!==t);this.context.actions.set({open:e})}point(t,e,s){let{context:n}=this,r=!n.current.square,o=this.pointedSource;if(this.pointedSource=r&&s?t:null,this.pointedSource!==o&&this.shaded(),t===null){n.actions.tip(null,[]),n.actions.point(null);return}let a=s?n.sources:n.targets,{start:l,stop:h}=a.groups[t],p=!s||n.current.square,u=-1;for(let d=l;d<h&&u<0;d++)p&&n.current.holds(d)&&(u=d);let m=this.words(t,s);e?n.actions.tip(e,m):(s?this.sourceText:this.targetText).describe(t,m.join(". ")),n.actions.point(u<0?null:u)}words(t,e){let{context:s}=this,n=s.preview;s.preview=null;let r=(e?s.sources:s.targets).label(t),o=s.targets.label(s.targetGroup),a=[r];if(e){let l=s.incoming(),h=$(l,s.own).findIndex(p=>p.group===t);t===s.own?a.push(`the target; ${v(l[t])} of it is its own`):l[t]?a.push(`${v(l[t])} of ${o}${h>=0?`, number ${h+1}`:""}`):a.push(`nothing of it is in ${o}`)}return s.preview=n,a}update(t){this.context=t;let{current:e,sources:s,targets:n,payload:r}=t,o=!e.square;this.picture.element.hidden=!r.image;let a=!!e.sources.seconds;this.strip.element.hidden=!a,this.targetName.hidden=!o,this.sourceName.hidden=!o||!!e.sources.segments?.[0]?.[2],this.targetText.element.hidden=!o,this.sourceText.show(s,t),this.sourceText.element.hidden=a||this.sourceText.isEmpty,o&&this.targetText.show(n,t),this.shaded(),this.layers.update(t)}pointed(t){this.context=t,this.shaded(),this.layers.update(t)}shaded(){let{context:t}=this,{own:e,sources:s,targets:n,targetGroup:r,current:o}=t,a=t.incoming(),l=A(a,e),h=t.preview===null;this.sourceText.shadeBy(t,a,l,e,h),o.square||this.shadeTargets(r,h),this.picture.show(t,a,l),this.strip.show(t,a,l);let p=$(a,e);h&&(this.answer.replaceChildren(this.headline()),this.facts.replaceChildren(...ze(t))),this.inList.classList.toggle("long",t.state.unit==="segments"||!!t.payload.image),this.fillLegend(l);let u=n.label(r);this.inName.replaceChildren("Where ",c("b",{},P(u))," comes from");let m=e>=0&&a[e]?[{group:e,value:a[e]}]:[];He(this.inList,t,{order:p.slice(0,Rt),itself:m,scale:l,label:b=>s.label(b),find:b=>this.find(b)});let d=Array.from(a).reduce((b,w)=>b+Math.abs(w),0),f=p.slice(Rt).reduce((b,w)=>b+Math.abs(w.value),0),g=[];p.length>Rt&&g.push(`${p.length-Rt} more sources: ${v(f)}`),!o.complete&&d<.9995&&g.push(`small shares left out of this page: ${v(1-d)}`),this.rest.textContent=g.join(" · "),this.goesTo(u)}shadeTargets(t,e){let{context:s,pointedSource:n}=this,{current:r,targets:o,sources:a}=s,l=n===null?new Float64Array(o.size):r.outgoing(s.choice,o,a,n),h=n===null?t:-1;this.targetText.shadeBy(s,l,A(l,-1),h,e)}goesTo(t){let{context:e}=this,{current:s,targets:n,targetGroup:r}=e,o=s.square&&s.held.length>1;if(this.outName.hidden=this.outList.hidden=!o,!o)return;let a=e.outgoing();this.outName.replaceChildren("Where ",c("b",{},P(t))," goes");let l=$(a,r).slice(0,Ms);this.outName.hidden=this.outList.hidden=l.length===0,He(this.outList,e,{order:l,itself:[],scale:A(a,r),label:h=>n.label(h),find:h=>this.find(h)})}fillLegend(t){let{palette:e,current:s,payload:n}=this.context,r=n.image?"patch":s.sources.seconds?"frame":"word",o=r==="word"?"point at a word to follow it, click to keep it":s.square?`click a ${r} to follow it`:"point for numbers",a=c("span",{class:"ramp"}),l=s.entry.signed?-5:0,h=Array.from({length:6-l},(p,u)=>T(M(e,(u+l)/5)));a.style.backgroundImage=`linear-gradient(to right, ${h.join(", ")})`,this.legend.replaceChildren(c("span",{class:"outlined"},"target"),c("span",{},s.entry.signed?v(-t):"0 %"),a,c("span",{},v(t)),c("span",{class:"quiet"},`share of the target · ${o}`))}most(){let{context:t}=this,{current:e}=t,[s,n]=[t.fine(e.targets),t.fine(e.sources)],r=s.of[t.state.target],o=e.incoming(t.choice,s,r,n),a=e.square?r:-1,l=$(o,a).slice(0,3);return{target:s.label(r),top:l.map(h=>[n.label(h.group),h.value]),own:a<0?0:o[a]}}headline(){let{target:t,top:e,own:s}=this.most(),n=e.map(([r,o])=>[c("b",{},P(r)),` ${v(o)}`]);return c("span",{},c("b",{class:"outlined"},P(t)),e.length?" took most from ":" took nothing from other tokens",...bt(n),s?c("span",{class:"quiet"},` · ${v(s)} is its own`):null)}sentence(){let{target:t,top:e}=this.most();return`${E(t)} took most from ${Tt(e)}`}paint(t,e,s){let{palette:n,own:r,current:o}=e,a=e.incoming(),l=A(a,r);t.text(0,22,S(t,this.sentence(),17,s),{size:17,fill:n.ink,weight:600});let h=40;return o.square||(h+=this.targetText.paint(t,e,0,h,s,new Float64Array(e.targets.size),1,e.targetGroup)+12),e.payload.image&&(h+=this.picture.paint(t,e,0,h,s,a,l)+12),o.sources.seconds?h+=this.strip.paint(t,e,0,h,s,a,l)+12:this.sourceText.isEmpty||(h+=this.sourceText.paint(t,e,0,h,s,a,l,r)+12),h+this.layers.paint(t,0,h,s)+8}rows(t){let e=t.incoming(),s=t.targets.label(t.targetGroup);return[["target","source","position","share","rank"],...$(e,-1).map(({group:n,value:r},o)=>[s,t.sources.label(n),String(t.sources.groups[n].start),r.toPrecision(4),String(o+1)])]}};function He(i,t,e){let{order:s,itself:n,scale:r,label:o,find:a}=e,l=(d,f,g)=>c("tr",{class:g?"own":null},c("th",{scope:"row",dir:"auto"},f),c("td",{class:"bars"},Kt(t,d,r,g?t.palette.quiet:void 0)),c("td",{},v(d))),[h,p]=["token","share"].map(d=>c("th",{scope:"col"},d)),u=d=>c("button",{type:"button",class:"source",title:`Find ${o(d)} in the text`,onclick:()=>a(d)},o(d)),m=s.map(d=>l(d.value,u(d.group),!1));m.push(...n.map(d=>l(d.value,"itself",!0))),i.replaceChildren(c("thead",{class:"unseen"},c("tr",{},h,c("td"),p)),c("tbody",{},...m))}var Ne={text:"Text",map:"Map",heads:"Heads",flow:"Flow",compare:"Compare"},Ts=1500,ht=class{constructor(t,e,s,n){this.root=t;this.linked=n;this.bar=c("header",{class:"bar-top"});this.tabs=c("div",{class:"tabs",role:"tablist","aria-label":"Views"});this.panel=c("div",{class:"panel",role:"tabpanel",tabindex:"-1"});this.foot=c("footer",{});this.tip=c("div",{class:"tip","aria-hidden":"true"});this.said=c("div",{class:"unseen","aria-live":"polite"});this.dark=window.matchMedia("(prefers-color-scheme: dark)");this.frame=0;t.classList.add("mixlens");let r=s&&ae(s,e,o=>this.show(o));t.replaceChildren(...r?[r]:[],this.bar,this.tabs,this.panel,this.foot,this.tip,this.said),this.dark.addEventListener("change",()=>this.update()),new ResizeObserver(()=>this.soon()).observe(t),n&&window.addEventListener("hashchange",()=>{this.context.measured.length&&location.hash.slice(1)!==Ut(this.context.state,this.first)&&(this.context.state=this.sound(Bt(location.hash,this.first)),this.update())}),this.show(e,!0)}show(t,e=!1){ge(t),this.views={text:new jt,map:new zt,heads:new St,flow:new Ct,compare:new Et};let s=this.context?.state.theme??"auto";this.context=new gt(t,{},{set:n=>this.set(n),point:n=>this.point(n),tip:(n,r)=>this.tipAt(n,r),announce:n=>{this.said.textContent=n}}),this.tabs.hidden=!t.maps.length,this.first=t.maps.length?this.firstState(t,s):{theme:s},t.maps.length?this.context.state=e&&this.linked?this.sound(Bt(location.hash,this.first)):{...this.first}:this.context.state=this.first,this.update()}withoutMaps(){let{payload:t,palette:e}=this.context;this.bar.replaceChildren(c("p",{class:"title"},t.title)),this.foot.replaceChildren(c("p",{},`mixlens ${t.mixlens}`)),this.panel.replaceChildren(t.ranking?Le(t.ranking,e):c("p",{class:"quiet"},"Type a text above and press Measure."))}firstState(t,e){let{measured:s}=this.context,n=Math.max(0,t.maps.findIndex(p=>p.measure==="value_zeroing")),r=s[n].sources,o=(r.words??r.labels).length,a=r.segments&&o>Ts?"segments":r.words?"words":"tokens",l=t.start?.target??s[n].held[0]??0;return{view:G.find(p=>p===t.start?.view)??"text",map:n,other:null,target:l,depth:s[n].defaultDepth,rows:"each",head:null,unit:a,threshold:.02,open:a==="segments"?this.strongest(s[n],l):[],node:null,theme:e}}strongest(t,e){let s=new _(t.sources,"segments"),n=new _(t.targets,"tokens"),r={depth:t.defaultDepth,head:null},o=t.incoming(r,n,e,s);return $(o,-1).slice(0,2).map(a=>a.group)}sound(t){let e={...t},{measured:s}=this.context;s[e.map]||(e.map=this.first.map);let n=s[e.map];return n.depths.includes(e.depth)||(e.depth=n.defaultDepth),e.head!==null&&(typeof e.depth!="number"||!(e.head>=0&&e.head<n.heads))&&(e.head=null),n.holds(e.target)||(e.target=n.holds(this.first.target)?this.first.target:n.held[n.held.length-1]),e.unit==="segments"&&!n.sources.segments&&(e.unit=n.sources.words?"words":"tokens"),e.unit==="words"&&!n.sources.words&&!n.targets.words&&(e.unit="tokens"),e.other!==null&&!s[e.other]&&(e.other=null),e}set(t){let{context:e}=this;if(e.preview=null,e.state=this.sound({...e.state,...t}),this.linked){let s=Ut(e.state,this.first);history.replaceState(null,"",`${location.pathname}${location.search}${s?`#${s}`:""}`)}this.update(),this.tipAt(null,[])}point(t){this.context.preview!==t&&(this.context.preview=t,cancelAnimationFrame(this.frame),this.frame=requestAnimationFrame(()=>this.view.pointed?.(this.context)))}get view(){return this.views[this.context.state.view]}soon(){cancelAnimationFrame(this.frame),this.frame=requestAnimationFrame(()=>this.update())}paint(){let{theme:t}=this.context.state,e=t==="dark"||t==="auto"&&this.dark.matches;this.context.palette=e?ee:pt,this.root.dataset.theme=e?"dark":"light",this.linked&&(document.documentElement.dataset.theme=e?"dark":"light")}update(){if(this.paint(),!this.context.measured.length)return this.withoutMaps();this.choices(),this.tabBar();let{element:t}=this.view;this.panel.firstChild!==t&&this.panel.replaceChildren(t),this.view.update(this.context),this.foot.replaceChildren(...ie(this.context))}choices(){let{context:t}=this,{state:e,measured:s,current:n}=t,r=[D("Measure",s.map((u,m)=>[String(m),t.name(u)]),String(e.map),u=>this.set({map:Number(u),head:null})),D("Layer",n.depths.map(u=>[String(u),n.depthName(u),n.upTo.length?Es(u):void 0]),String(e.depth),u=>this.set({depth:ft(u)}))];n.heads&&typeof e.depth=="number"&&r.push(D("Head",[["","whole layer"],...Array.from({length:n.heads},(u,m)=>[String(m),String(m)])],e.head===null?"":String(e.head),u=>this.set({head:u===""?null:Number(u)})));let{words:o,segments:a}=n.sources,l=[["tokens","Tokens"]];(o||n.targets.words)&&l.unshift(["words","Words"]),a&&l.push(["segments","Segments"]),l.length>1&&r.push(D("By",l,e.unit,u=>this.set({unit:u,node:null})));let h=this.root.getRootNode().activeElement,p=h&&this.bar.contains(h)?[...this.bar.querySelectorAll("select, button, summary")].indexOf(h):-1;this.bar.replaceChildren(...r,c("span",{class:"push"}),this.themeButton(),fe(()=>this.view,this.context,this.linked)),p>=0&&this.bar.querySelectorAll("select, button, summary")[p]?.focus()}themeButton(){let t=this.context.palette.dark;return c("button",{type:"button",class:"plain","aria-label":t?"Light colours":"Dark colours",onclick:()=>this.set({theme:t?"light":"dark"})},t?"☀":"☾")}tabBar(){let{state:t}=this.context;if(!this.tabs.children.length)for(let e of G)this.tabs.append(c("button",{type:"button",role:"tab","data-view":e,onclick:()=>this.set({view:e}),onkeydown:s=>this.tabKey(s)},Ne[e]));for(let e of this.tabs.children){let s=e.dataset.view===t.view;e.setAttribute("aria-selected",String(s)),e.tabIndex=s?0:-1}this.panel.setAttribute("aria-label",Ne[t.view])}tabKey(t){let e={ArrowLeft:-1,ArrowRight:1}[t.key];if(!e)return;t.preventDefault();let s=(G.indexOf(this.context.state.view)+e+G.length)%G.length;this.set({view:G[s]}),this.tabs.children[s].focus()}tipAt(t,e){let{tip:s}=this;if(s.classList.toggle("on",!!(t&&e.length)),!t||!e.length)return;s.replaceChildren(...e.map((h,p)=>c(p?"div":"b",{dir:"auto"},h)));let{clientX:n,clientY:r}=t,o=s.offsetWidth,a=s.offsetHeight;s.style.left=`${Math.max(4,Math.min(n+14,window.innerWidth-o-8))}px`;let l=r+18+a<=window.innerHeight;s.style.top=`${l?r+18:r-a-12}px`}};function Es(i){return typeof i=="number"?"One layer":R(i)===null?"All layers":"Layers up to one"}var Re=`html {
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
`;function Fe(i){let t=new CSSStyleSheet;t.replaceSync(Re),i.adoptedStyleSheets=[...i.adoptedStyleSheets,t]}function qe(i,t){try{t()}catch(e){i.replaceChildren(c("p",{role:"alert"},`This view cannot be shown: ${e.message}`))}}var je=typeof document>"u"?null:document.getElementById("payload"),Zt=typeof document>"u"?null:document.getElementById("view");if(je&&Zt){Fe(document);let i=JSON.parse(je.textContent??"null"),t=location.protocol!=="about:";qe(Zt,()=>new ht(Zt,i,i.live?new vt(i.live.api):null,t))}var Qt=class{constructor(t){this.model=t;this.running=0}choices(){return Promise.resolve(this.model.get("choices"))}run(t){let e=++this.running;return new Promise((s,n)=>{let r=()=>{let o=this.model.get("answer");o.number===e&&(this.model.off("change:answer",r),o.payload?s(o.payload):n(new Error(o.error??"The kernel gave no answer.")))};this.model.on("change:answer",r),this.model.set("job",{...t,number:e}),this.model.save_changes()})}cancel(){}};function Cs({model:i,el:t}){let e=t.attachShadow({mode:"open"});Fe(e);let s=c("div");e.append(s),qe(s,()=>new ht(s,i.get("payload"),new Qt(i),!1))}return Ve(As);})();
