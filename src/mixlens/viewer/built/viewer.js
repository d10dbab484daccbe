/* mixlens viewer, built from web/ de079c84155785381ca2e642a02aacede3e366805e4d8b38d2767d57ea8d08c6 */
"use strict";var mixlensViewer=(()=>{var St=Object.defineProperty;var Te=Object.getOwnPropertyDescriptor;var $e=Object.getOwnPropertyNames;var Ce=Object.prototype.hasOwnProperty;var Ae=(a,t)=>{for(var e in t)St(a,e,{get:t[e],enumerable:!0})},Se=(a,t,e,s)=>{if(t&&typeof t=="object"||typeof t=="function")for(let n of $e(t))!Ce.call(a,n)&&n!==e&&St(a,n,{get:()=>t[n],enumerable:!(s=Te(t,n))||s.enumerable});return a};var Le=a=>Se(St({},"__esModule",{value:!0}),a);var rs={};Ae(rs,{render:()=>ns});var it=a=>[Number.parseInt(a.slice(1,3),16),Number.parseInt(a.slice(3,5),16),Number.parseInt(a.slice(5,7),16)],at={dark:!1,paper:"#ffffff",ink:"#16191d",quiet:"#59626d",line:"#dfe3e8",band:"#f4f6f8",plus:["#f6f8fb","#cfe1f4","#9cc4ea","#5f9fdb","#2a74bd","#0b4586"].map(it),minus:["#fbf8f5","#fbdfc8","#f5b988","#e58b43","#bf5f14","#803604"].map(it)},Gt={dark:!0,paper:"#101316",ink:"#e8ebef",quiet:"#a0a9b4",line:"#2c333b",band:"#191e23",plus:["#181c21","#14324f","#1a517f","#2f7ab8","#62a9e0","#b4daf8"].map(it),minus:["#1e1b18","#452811","#754015","#ad611f","#e08a40","#fcc797"].map(it)};function ze(a,t){let e=Math.min(1,Math.max(0,t))*(a.length-1),s=Math.min(Math.floor(e),a.length-2),n=e-s,[r,o]=[a[s],a[s+1]];return[0,1,2].map(i=>Math.round(r[i]+(o[i]-r[i])*n))}function M(a,t){return ze(t<0?a.minus:a.plus,Math.abs(t))}var E=([a,t,e])=>`rgb(${a}, ${t}, ${e})`;function Pe(a){let[t,e,s]=a.map(n=>{let r=n/255;return r<=.04045?r/12.92:((r+.055)/1.055)**2.4});return .2126*t+.7152*e+.0722*s}function Q(a){return Pe(a)>.179?"#000000":"#ffffff"}var He={0:"NUL",7:"BEL",8:"BS",9:"TAB",10:"↵",13:"CR",27:"ESC",127:"DEL",160:"NBSP",173:"SHY",1564:"ALM",6158:"MVS",8203:"ZWSP",8204:"ZWNJ",8205:"ZWJ",8206:"LRM",8207:"RLM",8232:"LS",8233:"PS",8234:"LRE",8235:"RLE",8236:"PDF",8237:"LRO",8238:"RLO",8288:"WJ",8294:"LRI",8295:"RLI",8296:"FSI",8297:"PDI",65279:"BOM",65532:"OBJ"},Ne=/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u00a0\ufffc]/gu,Ut=/[\p{L}\p{M}\p{Extended_Pictographic}\ufe0f\u{1f3fb}-\u{1f3ff}]/u;function Bt(a){return a.replace(Ne,(t,e)=>{let s=t.codePointAt(0);if(s===10)return"↵";if(s===8204||s===8205){let n=[...a.slice(0,e)].pop()??"",r=[...a.slice(e+1)][0]??"";if(Ut.test(n)&&Ut.test(r))return t}return`⟨${He[s]??`U+${s.toString(16).toUpperCase().padStart(4,"0")}`}⟩`})}var q=class{constructor(t,e,s=new Set){this.text=t;this.unit=e;this.open=s;this.groups=Re(t,e,s),this.of=new Int32Array(t.labels.length),this.groups.forEach((n,r)=>this.of.fill(r,n.start,n.stop))}get size(){return this.groups.length}label(t){let{start:e,stop:s,segment:n}=this.groups[t],r=n===null?s:Math.min(s,e+6),o="";for(let i=e;i<r;i++)o+=(i>e?this.text.gaps[i].replace(/\s+/g," "):"")+this.text.shown[i];return Bt(o)+(r<s?" …":"")}special(t){let{start:e,stop:s}=this.groups[t];return this.text.special.slice(e,s).every(n=>n===1)}};function Re(a,t,e){let s=a.labels.length,n=(o,i)=>Array.from({length:i-o},(l,h)=>({start:o+h,stop:o+h+1,segment:null})),r=(o,i)=>a.words?a.words.filter(([l,h])=>l<i&&h>o).map(([l,h])=>({start:Math.max(l,o),stop:Math.min(h,i),segment:null})):n(o,i);return t==="tokens"?n(0,s):t==="words"||!a.segments?r(0,s):a.segments.flatMap(([o,i],l)=>e.has(l)?r(o,i):[{start:o,stop:i,segment:l}])}function Vt(a,t){return a.segments?a.segments.findIndex(([e,s])=>e<=t&&t<s):-1}function Oe(a){let t=atob(a),e=new Uint8Array(t.length);for(let s=0;s<t.length;s++)e[s]=t.charCodeAt(s);return e}var Fe=(()=>{let a=new Float32Array(65536);for(let t=0;t<65536;t++){let e=t&32768?-1:1,s=t>>10&31,n=t&1023;s===0?a[t]=e*n*2**-24:s===31?a[t]=n?Number.NaN:e*Number.POSITIVE_INFINITY:a[t]=e*(1+n/1024)*2**(s-15)}return a})();function V(a){let t=Oe(a.data).buffer;switch(a.dtype){case"float16":{let e=new Uint16Array(t),s=new Float32Array(e.length);for(let n=0;n<e.length;n++)s[n]=Fe[e[n]];return s}case"float32":return new Float32Array(t);case"uint16":return new Uint16Array(t);case"uint32":return new Uint32Array(t);default:throw new Error(`Arrays of ${a.dtype} are not known here.`)}}function lt(a){return a.kind==="dense"?new Lt(a.shares):new zt(a)}var Lt=class{constructor(t){this.complete=!0;let e=t.shape;this.sources=e[e.length-1],this.targets=e[e.length-2],this.layers=e.slice(0,-2).reduce((s,n)=>s*n,1),this.values=V(t)}eachOfRow(t,e,s){let n=(t*this.targets+e)*this.sources;for(let r=0;r<this.sources;r++){let o=this.values[n+r];o!==0&&s(r,o)}}eachOfColumn(t,e,s){let n=t*this.targets*this.sources+e;for(let r=0;r<this.targets;r++){let o=this.values[n+r*this.sources];o!==0&&s(r,o)}}},zt=class{constructor(t){this.complete=!1;this.columns=new Map;[this.layers,this.targets,this.sources]=t.shape,this.starts=V(t.starts),this.indices=V(t.indices),this.values=V(t.values)}eachOfRow(t,e,s){let n=t*this.targets+e;for(let r=this.starts[n];r<this.starts[n+1];r++)s(this.indices[r],this.values[r])}eachOfColumn(t,e,s){let{starts:n,rows:r,values:o}=this.columnsOf(t);for(let i=n[e];i<n[e+1];i++)s(r[i],o[i])}columnsOf(t){let e=this.columns.get(t);if(e)return e;let s=new Uint32Array(this.sources+1);for(let l=0;l<this.targets;l++)this.eachOfRow(t,l,h=>s[h+1]++);for(let l=0;l<this.sources;l++)s[l+1]+=s[l];let n=s.slice(),r=new Uint32Array(s[this.sources]),o=new Float32Array(r.length);for(let l=0;l<this.targets;l++)this.eachOfRow(t,l,(h,p)=>{let u=n[h]++;r[u]=l,o[u]=p});let i={starts:s,rows:r,values:o};return this.columns.set(t,i),i}};var ht=class{constructor(t,e){this.entry=e;this.norms=new WeakMap;this.targets=t.texts[e.targets],this.sources=t.texts[e.sources],this.square=e.targets===e.sources,this.held=e.target_positions??this.targets.labels.map((n,r)=>r),this.rowOf=new Map(this.held.map((n,r)=>[n,r])),this.layers=e.scores&&lt(e.scores),this.joined=e.joined&&lt(e.joined.scores),this.perHead=e.heads?lt(e.heads):null,this.heads=this.perHead?this.perHead.layers/e.layers.length:0;let s=n=>n?V(n):null;this.totals=s(e.totals),this.joinedTotals=s(e.joined?.totals)}get complete(){return(this.layers?.complete??!0)&&(this.joined?.complete??!0)}get whole(){return this.square&&this.entry.target_positions===null&&this.layers!==null}get depths(){let t=this.entry.layers.map((n,r)=>r),e=this.entry.joined?.how==="mean",s=t.length>1&&!this.entry.reaches_input&&!e?["mean"]:[];return[...this.joined?["all"]:[],...s,...t]}get defaultDepth(){if(this.joined)return"all";let t=this.entry.layers.length-1;return this.entry.reaches_input||t===0?t:"mean"}depthName(t){if(t==="mean")return"Mean of layers";if(t==="all")return`All layers (${this.entry.joined.how.replace(/\(.*/,"")})`;let e=(this.entry.provenance.steps??[]).find(n=>/^(rollout|flow)/.test(n)),s=`Layer ${this.entry.layers[t]}`;return e?`${s} (${e.replace(/\(.*/,"")} up to it)`:s}holds(t){return this.rowOf.has(t)}planes({depth:t,head:e}){if(t==="all"&&this.joined)return[{shares:this.joined,layer:0,totals:this.joinedTotals}];if(t==="mean"||t==="all")return this.entry.layers.flatMap((r,o)=>this.planes({depth:o,head:e}));if(e!==null&&this.perHead)return[{shares:this.perHead,layer:t*this.heads+e,totals:null}];if(!this.layers)return[];let s=this.held.length,n=this.totals?.subarray(t*s,(t+1)*s)??null;return[{shares:this.layers,layer:t,totals:n}]}rows(t,e){let{start:s,stop:n}=t.groups[e],r=[];for(let o=s;o<n;o++){let i=this.rowOf.get(o);i!==void 0&&r.push(i)}return r}incoming(t,e,s,n){let r=new Float64Array(n.size),o=this.planes(t),i=this.rows(e,s);for(let l of o){let h=o.length>1?new Float64Array(n.size):r,p=this.accumulate(l,i,n,h),u=p>0?1/p/o.length:0;for(let d=0;d<h.length;d++)h===r?r[d]*=u:r[d]+=h[d]*u}return r}accumulate(t,e,s,n){let r=0;for(let i of e){let l=t.totals?t.totals[i]:1,h=0;t.shares.eachOfRow(t.layer,i,(p,u)=>{n[s.of[p]]+=u*l,h+=Math.abs(u)}),t.shares.complete||(r+=Math.max(0,1-h)*l)}let o=r;for(let i of n)o+=Math.abs(i);return o}outgoing(t,e,s,n){let r=new Float64Array(e.size),o=this.planes(t),{start:i,stop:l}=s.groups[n];for(let h of o){let p=this.normsOf(h,e,s);for(let u=i;u<l;u++)h.shares.eachOfColumn(h.layer,u,(d,m)=>{let g=e.of[this.held[d]],f=p[g],b=h.totals?h.totals[d]:1;f>0&&(r[g]+=m*b/f/o.length)})}return r}normsOf(t,e,s){let n=this.norms.get(e)??new Map;this.norms.set(e,n);let r=`${t.shares===this.perHead} ${t.shares===this.joined} ${t.layer}`,o=n.get(r)??new Float64Array(e.size);if(n.has(r))return o;for(let i=0;i<e.size;i++){let l=this.rows(e,i);if(this.entry.signed)o[i]=this.accumulate(t,l,s,new Float64Array(s.size));else for(let h of l)o[i]+=t.totals?t.totals[h]:1}return n.set(r,o),o}eachTransition(t,e,s){let{residual:n=0,normalize:r}=this.entry.joined,o=this.entry.signed||!this.totals?1:this.totals[t*this.held.length+e],i=n;r!==!1&&this.layers.eachOfRow(t,e,(h,p)=>{i+=(1-n)*Math.abs(p)*o});let l=r===!1?1:i>0?1/i:0;n>0&&s(e,n*l),this.layers.eachOfRow(t,e,(h,p)=>s(h,(1-n)*Math.abs(p)*o*l))}total({depth:t,head:e},s){if(e!==null||typeof t!="number"||!this.totals)return null;let n=this.rowOf.get(s);return n===void 0?null:this.totals[t*this.held.length+n]}};function $(a,t){let e=[];for(let s=0;s<a.length;s++)s!==t&&a[s]!==0&&e.push({group:s,value:a[s]});return e.sort((s,n)=>Math.abs(n.value)-Math.abs(s.value)||s.group-n.group)}function C(a,t){let e=0;for(let s=0;s<a.length;s++)s!==t&&(e=Math.max(e,Math.abs(a[s])));return e}var ct=class{constructor(t,e,s){this.payload=t;this.state=e;this.actions=s;this.preview=null;this.groupings=new Map;this.measured=t.maps.map(n=>new ht(t,n))}get current(){return this.measured[this.state.map]}get choice(){return{depth:this.state.depth,head:this.state.head}}get target(){return this.preview??this.state.target}grouping(t){let e=this.state.unit==="segments"?this.openSegments(t):[],s=`${this.payload.texts.indexOf(t)} ${this.state.unit} ${e.join(",")}`,n=this.groupings.get(s);return n||(this.groupings.size>12&&this.groupings.clear(),n=new q(t,this.state.unit,new Set(e)),this.groupings.set(s,n)),n}fine(t){let e=`${this.payload.texts.indexOf(t)} fine`,s=this.groupings.get(e)??new q(t,"words");return this.groupings.set(e,s),s}openSegments(t){let e=t===this.current.targets?Vt(t,this.state.target):-1,s=new Set(this.state.open);return e>=0&&s.add(e),[...s].sort((n,r)=>n-r)}get targets(){return this.grouping(this.current.targets)}get sources(){return this.grouping(this.current.sources)}get targetGroup(){return this.targets.of[this.target]??0}get own(){return this.current.square?this.targetGroup:-1}incoming(t=this.current,e=this.choice){return t.incoming(e,this.targets,this.targetGroup,this.sources)}outgoing(){let{current:t}=this;return t.outgoing(this.choice,this.targets,this.sources,this.targetGroup)}depthFor(t){return t.depths.includes(this.state.depth)?this.state.depth:t.defaultDepth}name(t){let{measure:e,provenance:s}=t.entry,n=s.site;return new Set(this.payload.maps.map(o=>o.provenance.site)).size>1&&n?`${e} · ${n}`:e}};function c(a,t={},...e){let s=document.createElement(a);for(let[n,r]of Object.entries(t))r==null||r===!1||(n.startsWith("on")?s.addEventListener(n.slice(2),r):n==="class"?s.className=String(r):s.setAttribute(n,r===!0?"":String(r)));return s.append(...e.filter(n=>n!=null&&n!==!1)),s}function x(a){let t=Math.abs(a*100);if(t>0&&t<.005)return"under 0.01 %";let e=t>=9.95?0:t>=.095?1:2;return`${a<0?"−":""}${t.toFixed(e)} %`}var T=a=>`⁨${a}⁩`;function P(a,t,e,s){let n=c("select",{onchange:r=>s(r.target.value)});for(let[r,o]of t)n.append(c("option",{value:r,selected:r===e},o));return c("label",{class:"field"},c("span",{},a),n)}function H(a,t){let e=c("details",{class:"behind"},c("summary",{},`${a} as a table`));return e.addEventListener("toggle",()=>{e.open&&Jt(e,t())}),e}function N(a,t){a.open&&Jt(a,t())}var Kt=400;function Jt(a,[t,...e]){a.querySelector("div")?.remove();let s=c("table",{},c("thead",{},c("tr",{},...(t??[]).map(r=>c("th",{scope:"col"},r)))),c("tbody",{},...e.slice(0,Kt).map(r=>c("tr",{},...r.map((o,i)=>i?c("td",{},o):c("th",{scope:"row"},o)))))),n=e.length-Kt;a.append(c("div",{class:"wide",tabindex:"0",role:"region","aria-label":"Table"},s,n>0&&c("p",{},`${n} more rows are in the CSV file.`)))}function Yt(a){let{current:t,payload:e}=a,{provenance:s,citation:n,summary:r,notes:o,measure:i,joined:l}=t.entry,h=Object.entries(s.options??{}).map(([g,f])=>`${g}=${String(f)}`).join(", "),p=(s.steps??[]).join(" → "),u=s.name??s.model??"",d=[u&&`${u}${s.dtype?` in ${String(s.dtype)}`:""}`,`${i}${h?` (${h})`:""}${p?` → ${p}`:""}`,l&&`layers joined by ${l.how}`,s.site,n,"shares in float16, three digits",`mixlens ${e.mixlens}`],m=[...o??[]];if(!t.complete){let g=Array.from(a.incoming()).reduce((f,b)=>f+Math.abs(b),0);m.push(`Of each row and column only the largest shares are in this page. For this target ${x(Math.max(0,1-g))} is left out.`)}return[c("p",{},c("b",{},i),r?`: ${r}.`:"."),c("p",{},d.filter(Boolean).join(" · ")),...m.map(g=>c("p",{},g))]}var qe=a=>new Promise(t=>setTimeout(t,a)),ut=class{constructor(t){this.api=t;this.job=null}async ask(t,e={}){let s=await fetch(this.api+t,e);if(s.status===204)return;let n=await s.json().catch(()=>null);if(!s.ok)throw new Error(typeof n?.detail=="string"?n.detail:`The server answered ${s.status}.`);return n}choices(){return this.ask("")}async run(t,e){let{id:s}=await this.ask("/jobs",{method:"POST",headers:{"Content-Type":"application/json"},body:JSON.stringify(t)});this.job=s;for(let n=80;;n=Math.min(1e3,n*1.3)){let r=await this.ask(`/jobs/${s}`);if(r.state==="done")break;if(r.state==="failed"||r.state==="cancelled")throw new Error(r.message||r.state);e(r.progress,r.message||r.state),await qe(n)}return this.job=null,this.ask(`/jobs/${s}/payload`)}cancel(){this.job&&this.ask(`/jobs/${this.job}`,{method:"DELETE"}).catch(()=>{})}},je=["value_zeroing","attention","alti"];function Xt(a,t,e){let s=c("textarea",{rows:"2","aria-label":"Text",spellcheck:"false"});s.value=t.texts[0]?De(t):"";let n=c("textarea",{rows:"2","aria-label":"Target text: what the decoder is given",placeholder:"What the decoder is given",spellcheck:"false",hidden:!0}),r=c("span",{class:"live-fields"}),o=c("fieldset",{class:"checks"},c("legend",{},"Measures")),i=c("input",{type:"checkbox"}),l=c("button",{type:"submit",class:"primary"},"Measure"),h=c("button",{type:"button",hidden:!0,onclick:()=>a.cancel()},"Cancel"),p=c("progress",{max:"1",hidden:!0,"aria-label":"Progress"}),u=c("p",{class:"quiet",role:"status"}),d="",m=c("form",{class:"live",onsubmit:f=>{f.preventDefault(),g()}},s,n,c("div",{class:"live-line"},r,c("details",{class:"behind"},c("summary",{},"Measures"),o,c("label",{},i," single heads too")),l,h,p,u));async function g(){let f=[...o.querySelectorAll("input:checked")].map(b=>b.value);l.disabled=!0,p.hidden=h.hidden=!1,u.textContent="",u.classList.remove("wrong");try{let b={model:d,text:s.value,target_text:n.hidden?null:n.value,measures:f,heads:i.checked};e(await a.run(b,(v,w)=>{p.value=v,u.textContent=w})),u.textContent=""}catch(b){u.textContent=b.message,u.classList.add("wrong")}finally{l.disabled=!1,p.hidden=h.hidden=!0}}return a.choices().then(f=>{d=f.models[0]?.name??"";let b=()=>{n.hidden=!f.models.find(w=>w.name===d)?.pairs};b(),f.models.length>1&&r.append(P("Model",f.models.map(({name:w})=>[w,w]),d,w=>{d=w,b()}));let v=new Set(t.maps.map(w=>w.measure));for(let{name:w,summary:O}of f.measures){let k=v.size?v.has(w):je.includes(w);o.append(c("label",{title:O??""},c("input",{type:"checkbox",value:w,checked:k}),` ${w}`))}},f=>{u.textContent=f.message,u.classList.add("wrong")}),m}function De(a){let{shown:t,gaps:e,special:s,labels:n}=a.texts[0];return t.map((r,o)=>s[o]&&!/mask/i.test(n[o])?"":e[o]+r).join("").trim()}var Zt='system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif',Qt=(a,t=400)=>`${t} ${a}px ${Zt}`,_=class{constructor(t){this.pen=t}rect(t,e,s,n,r,o,i=1,l=0){let{pen:h}=this;h.beginPath(),l?h.roundRect(t,e,s,n,l):h.rect(t,e,s,n),r&&(h.fillStyle=r,h.fill()),o&&(h.strokeStyle=o,h.lineWidth=i,h.stroke())}text(t,e,s,n){let{pen:r}=this;r.save(),r.font=Qt(n.size,n.weight),r.fillStyle=n.fill,r.textAlign=n.align??"left",r.direction=n.rtl?"rtl":"ltr",r.translate(t,e),n.rotate&&r.rotate(n.rotate*Math.PI/180),r.fillText(s,0,0),r.restore()}curve(t,e,s,n,r,o,i){let{pen:l}=this,h=(e+n)/2;l.save(),l.globalAlpha=i,l.strokeStyle=o,l.lineWidth=r,l.lineCap="round",l.beginPath(),l.moveTo(t,e),l.bezierCurveTo(t,h,s,h,s,n),l.stroke(),l.restore()}circle(t,e,s,n,r){let{pen:o}=this;o.beginPath(),o.arc(t,e,s,0,2*Math.PI),o.fillStyle=n,o.fill(),r&&(o.strokeStyle=r,o.lineWidth=2,o.stroke())}image(t,e,s,n,r,o=!1){this.pen.imageSmoothingEnabled=o,this.pen.drawImage(t,e,s,n,r)}width(t,e,s){return te(t,e,s)}},Pt=null;function te(a,t,e){return Pt??=document.createElement("canvas").getContext("2d"),Pt.font=Qt(t,e),Pt.measureText(a).width}var K=a=>Math.round(a*100)/100,tt=class{constructor(){this.parts=[]}put(t,e,s=""){let n=Object.entries(e).filter(([,r])=>r!==void 0).map(([r,o])=>`${r}="${Ht(String(typeof o=="number"?K(o):o))}"`).join(" ");this.parts.push(`<${t} ${n}${s?`>${s}</${t}>`:"/>"}`)}rect(t,e,s,n,r,o,i=1,l=0){this.put("rect",{x:t,y:e,width:s,height:n,rx:l||void 0,fill:r??"none",stroke:o,"stroke-width":o&&i})}text(t,e,s,n){let r={left:"start",center:"middle",right:"end"}[n.align??"left"];this.put("text",{x:n.rotate?0:t,y:n.rotate?0:e,transform:n.rotate?`translate(${K(t)} ${K(e)}) rotate(${n.rotate})`:void 0,"font-size":n.size,"font-weight":n.weight,fill:n.fill,direction:n.rtl?"rtl":void 0,"text-anchor":r==="start"?void 0:r},Ht(s))}curve(t,e,s,n,r,o,i){let[l,h,p,u,d]=[t,e,s,n,(e+n)/2].map(K);this.put("path",{d:`M${l} ${h}C${l} ${d} ${p} ${d} ${p} ${u}`,fill:"none",stroke:o,"stroke-width":r,"stroke-opacity":i,"stroke-linecap":"round"})}circle(t,e,s,n,r){this.put("circle",{cx:t,cy:e,r:s,fill:n,stroke:r,"stroke-width":r&&2})}image(t,e,s,n,r){let o=t instanceof HTMLCanvasElement?t.toDataURL("image/png"):t.src;this.put("image",{x:e,y:s,width:n,height:r,href:o,preserveAspectRatio:"none",style:"image-rendering:pixelated"})}width(t,e,s){return te(t,e,s)}file(t,e,s){let[n,r]=[K(t),K(e)],i=`<svg xmlns="http://www.w3.org/2000/svg" ${`width="${n}" height="${r}" viewBox="0 0 ${n} ${r}"`} font-family="${Ht(Zt)}">`,l=`<rect width="100%" height="100%" fill="${s}"/>`;return`${i}${l}${this.parts.join("")}</svg>
`}};function Ht(a){return a.replace(/[&<>"]/g,t=>({"&":"&amp;","<":"&lt;",">":"&gt;",'"':"&quot;"})[t])}function A(a,t,e,s){if(a.width(t,e)<=s)return t;let n=[...t];for(;n.length>1&&a.width(`${n.join("")}…`,e)>s;)n.pop();return`${n.join("")}…`}function S(a,t,e){let s=Math.max(1,window.devicePixelRatio||1);a.width=Math.max(1,Math.round(t*s)),a.height=Math.max(1,Math.round(e*s)),a.style.width=`${t}px`,a.style.height=`${e}px`;let n=a.getContext("2d");return n.setTransform(s,0,0,s,0,0),n.clearRect(0,0,t,e),new _(n)}var pt=1e3,et=28;function Ie(a){let{current:t,state:e}=a,{provenance:s}=t.entry,n=s.name??s.model??"",r=e.head===null?"":`, head ${e.head}`;return[`${a.name(t)}, ${t.depthName(e.depth).toLowerCase()}${r}`,n,`mixlens ${a.payload.mixlens}`].filter(Boolean).join(" · ")}var Nt=class{constructor(t,e){this.inner=t;this.by=e;this.rect=(t,e,...s)=>this.inner.rect(t+this.by,e+this.by,...s);this.text=(t,e,...s)=>this.inner.text(t+this.by,e+this.by,...s);this.circle=(t,e,...s)=>this.inner.circle(t+this.by,e+this.by,...s);this.curve=(t,e,s,n,...r)=>this.inner.curve(t+this.by,e+this.by,s+this.by,n+this.by,...r);this.image=(t,e,s,...n)=>this.inner.image(t,e+this.by,s+this.by,...n);this.width=(...t)=>this.inner.width(...t)}};function Rt(a,t,e){let s=pt-2*et,n=a.paint(new Nt(e,et),t,s);return e.text(et,et+n+22,Ie(t),{size:12,fill:t.palette.quiet}),n+2*et+22}function ee(a,t){let e=new tt,s=Rt(a,t,e);return e.file(pt,s,t.palette.paper)}function se(a,t,e=2){let s=Rt(a,t,new tt),n=document.createElement("canvas");n.width=pt*e,n.height=Math.round(s*e);let r=n.getContext("2d");return r.scale(e,e),r.fillStyle=t.palette.paper,r.fillRect(0,0,pt,s),Rt(a,t,new _(r)),new Promise((o,i)=>n.toBlob(l=>l?o(l):i(new Error("The picture is too large for this browser.")),"image/png"))}function ne(a){let t=e=>{let s=/^[=@+\t\r]/.test(e)||/^-(?![\d.])/.test(e)?`'${e}`:e;return/[",\n\r]/.test(s)?`"${s.replaceAll('"','""')}"`:s};return`${a.map(e=>e.map(t).join(",")).join(`\r
`)}\r
`}function re(a,t){let[e,...s]=a.rows(t),{current:n,state:r}=t,o=n.depthName(r.depth),{provenance:i}=n.entry;return`${JSON.stringify({state:r,depth:o,provenance:i,columns:e,rows:s},null,2)}
`}function st(a,t,e){let s=typeof t=="string"?new Blob([t],{type:e}):t,n=document.createElement("a");n.href=URL.createObjectURL(s),n.download=a,n.click(),setTimeout(()=>URL.revokeObjectURL(n.href),1e4)}function oe(a,t,e){let s=c("summary",{},"Save"),n=c("details",{class:"menu"},s),r=(h,p)=>c("button",{type:"button",onclick:async()=>{n.open=!1;try{await p()}catch(d){s.textContent="Not possible here",s.title=d.message,t.actions.announce(d.message)}}},h),o=h=>`mixlens-${t.state.view}.${h}`,i=()=>se(a(),t),l=[r("Picture (PNG)",async()=>st(o("png"),await i(),"image/png")),r("Drawing (SVG)",()=>st(o("svg"),ee(a(),t),"image/svg+xml")),r("Numbers (CSV)",()=>st(o("csv"),ne(a().rows(t)),"text/csv")),r("Numbers (JSON)",()=>st(o("json"),re(a(),t),"application/json")),r("Copy the picture",()=>navigator.clipboard.write([new ClipboardItem({"image/png":i()})]))];return e&&l.push(r("Copy a link to this view",()=>navigator.clipboard.writeText(location.href))),n.append(c("div",{},...l)),n.addEventListener("keydown",h=>{h.key==="Escape"&&(n.open=!1)}),n}function ie(a){if(a?.format!=="mixlens")throw new Error("This is not a mixlens payload.");if(a.version!==1)throw new Error(`This viewer shows payloads of version 1, not ${a.version}.`);return a}var j=["text","map","heads","flow","compare"];function Ot(a,t){let e=new URLSearchParams,s=(n,r,o)=>{JSON.stringify(r)!==JSON.stringify(o)&&e.set(n,String(r??""))};return s("view",a.view,t.view),s("measure",a.map,t.map),s("with",a.other,t.other),s("target",a.target,t.target),s("layer",a.depth,t.depth),s("head",a.head,t.head),s("unit",a.unit,t.unit),s("from",a.threshold,t.threshold),s("open",a.open,t.open),s("node",a.node,t.node),s("theme",a.theme,t.theme),e.toString()}function Ft(a,t){let e=new URLSearchParams(a.replace(/^#/,"")),s=(h,p)=>{let u=e.get(h),d=Number(u);return u!==null&&u!==""&&Number.isFinite(d)?d:p},n=(h,p)=>e.get(h)===""?null:e.has(h)?s(h,-1):p,r=(h,p,u)=>p.find(d=>d===e.get(h))??u,o=h=>(e.get(h)??"").split(",").filter(Boolean).map(Number),i=e.get("layer"),l=o("node");return{view:r("view",j,t.view),map:s("measure",t.map),other:n("with",t.other),target:s("target",t.target),depth:i==="all"||i==="mean"?i:i?Number(i):t.depth,head:n("head",t.head),unit:r("unit",["tokens","words","segments"],t.unit),threshold:s("from",t.threshold),open:e.has("open")?o("open"):t.open,node:l.length===2?[l[0],l[1]]:null,theme:r("theme",["auto","light","dark"],t.theme)}}function qt(a){let t=Array.from({length:a.length},(s,n)=>n).sort((s,n)=>Math.abs(a[n])-Math.abs(a[s])),e=new Float64Array(a.length);for(let s=0;s<t.length;){let n=s;for(;n<t.length&&Math.abs(a[t[n]])===Math.abs(a[t[s]]);)n++;for(let r=s;r<n;r++)e[t[r]]=(s+1+n)/2;s=n}return e}function nt(a,t){let e=qt(a),s=qt(t),n=(e.length+1)/2,r=0,o=0,i=0;for(let l=0;l<e.length;l++)r+=(e[l]-n)*(s[l]-n),o+=(e[l]-n)**2,i+=(s[l]-n)**2;return o&&i?r/Math.sqrt(o*i):Number.NaN}function W(a,t){return Array.from(a).filter((e,s)=>s!==t)}function dt(a,t){let e=Array.from(a[0]??[],(r,o)=>o).filter(r=>r!==t),s=a.map(r=>qt(e.map(o=>r[o])));return e.map((r,o)=>{let i=a.map(u=>Math.abs(u[r])),l=i.indexOf(Math.max(...i)),h=i.indexOf(Math.min(...i)),p=i[l]-i[h];return{group:r,high:l,low:h,highRank:s[l][o],lowRank:s[h][o],weight:p}}).sort((r,o)=>o.weight-r.weight)}var _e=6;function le(a,t){let{own:e,sources:s}=a,n=t.map(u=>u.values),r=dt(n,e).slice(0,_e),o=Math.max(...n.map(u=>C(u,e))),i=n.map(u=>$(u,e).map(d=>d.group)),l=t.flatMap(u=>[c("th",{scope:"col",colspan:"2"},a.name(u.measured)),c("th",{scope:"col"},"rank")]),h=u=>n.flatMap((d,m)=>[c("td",{class:"bars"},jt(a,d[u],o)),c("td",{},x(d[u])),c("td",{},String(i[m].indexOf(u)+1||"–"))]),p=r.filter(u=>u.weight>0).map(({group:u})=>{let d=c("th",{scope:"row",dir:"auto"},s.label(u));return c("tr",{},d,...h(u))});return[c("thead",{},c("tr",{},c("th",{scope:"col"},"token"),...l)),c("tbody",{},...p)]}function jt(a,t,e,s){let n=c("span",{class:"bar"});return n.style.width=`${Math.min(100,e>0?Math.abs(t)/e*100:0)}%`,n.style.backgroundColor=s??E(M(a.palette,t<0?-.72:.72)),n}function he(a,t){let e=t.map(o=>W(o.values,a.own)),s=t.map((o,i)=>c("th",{scope:"col"},ae(i))),n=t.map((o,i)=>{let l=c("th",{scope:"row"},`${ae(i)}  ${a.name(o.measured)}`),h=e.map((p,u)=>i===u?c("td",{class:"same"},"·"):We(a,nt(e[i],p)));return c("tr",{},l,...h)});return c("table",{},c("caption",{class:"quiet"},"Spearman's rank correlation over all sources but the target itself"),c("thead",{},c("tr",{},c("td"),...s)),c("tbody",{},...n))}function We(a,t){if(Number.isNaN(t))return c("td",{},"–");let e=c("td",{},t.toFixed(2).replace("-","−")),s=M(a.palette,t*.9);return e.style.backgroundColor=E(s),e.style.color=Q(s),e}function ae(a){return a<26?String.fromCharCode(97+a):String(a)}var ue=/[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;function ce(a){for(let t of a){let e=/\p{L}/u.exec(t.replace(/^[[<].*[\]>]$/,""));if(e)return ue.test(e[0])}return!1}var G=class{constructor(t,e){this.handlers=e;this.grouping=null;this.items=[];this.shades=[];this.palette=null;this.marked=-1;this.inSight=null;this.element=c("div",{class:"reading",role:"listbox","aria-label":t,onclick:s=>this.at(s,n=>this.handlers.choose(n)),onmousemove:s=>this.over(s),onmouseleave:s=>this.handlers.point(null,s),onkeydown:s=>this.key(s),onfocusin:s=>this.at(s,n=>this.handlers.point(n,null)),onfocusout:()=>this.handlers.point(null,null)})}at(t,e){let s=t.target.closest("[data-fold]");s&&t.type==="click"&&this.handlers.close?.(Number(s.dataset.fold));let n=t.target.closest("[data-group]");n&&e(Number(n.dataset.group))}over(t){let e=t.target.closest("[data-group]"),s=e?Number(e.dataset.group):null;this.handlers.point(s,t)}key(t){let e=this.items.indexOf(t.target);if(e<0)return;let s=this.element.matches(":dir(rtl)")?"ArrowLeft":"ArrowRight",n=s==="ArrowRight"?"ArrowLeft":"ArrowRight",r={[s]:e+1,[n]:e-1,ArrowDown:e+1,ArrowUp:e-1,Home:0,End:this.items.length-1};if(t.key==="Enter"||t.key===" ")this.handlers.choose(e);else if(t.key in r){let o=Math.max(0,Math.min(this.items.length-1,r[t.key]));this.focus(o)}else return;t.preventDefault()}focus(t){for(let e of this.items)e.tabIndex===0&&(e.tabIndex=-1);this.items[t].tabIndex=0,this.items[t].focus()}show(t,e){t!==this.grouping&&(this.build(t),this.palette=null),e.palette!==this.palette&&(this.shades=new Array(t.size).fill(Number.NaN),this.palette=e.palette)}build(t){let e=this.items.indexOf(this.element.getRootNode().activeElement);this.grouping=t,this.marked=-1;let{text:s}=t,n=[],r=new Map;if(t.unit==="segments")for(let l of t.open)r.set(s.segments[l][0],l);this.items=t.groups.map((l,h)=>{let p=s.gaps[l.start],u=r.get(l.start);u!==void 0&&n.push(c("span",{class:"fold","data-fold":u,"aria-hidden":"true"},"▾")),p.split(`
`).forEach((f,b)=>{b&&n.push(c("br")),f&&n.push(document.createTextNode(f.replace(/\s+/g," ")))});let d=t.special(h)&&!/mask/i.test(s.labels[l.start]),m=c("span",{class:["token",d&&"special",l.segment!==null&&"segment"].filter(Boolean).join(" "),role:"option",dir:"auto",tabindex:"-1","aria-selected":"false","data-group":h}),g=t.label(h);return m.append(g),l.segment!==null&&m.append(c("small",{},`${l.stop-l.start} tokens`)),n.push(m),g.endsWith("↵")&&n.push(c("br")),m}),this.element.replaceChildren(...n),this.element.dir=ce(s.shown)?"rtl":"ltr";let o=t.size;this.element.dataset.size=o<=40?"large":o<=150?"middle":o<=700?"small":"tiny";let i=this.items[Math.max(0,e)]??this.items[0];i&&(i.tabIndex=0),e>=0&&i?.focus()}shadeBy(t,e,s,n,r){this.items.forEach((i,l)=>{let h=s>0&&l!==n?Math.round(e[l]/s*64)/64:0;if(this.shades[l]===h)return;this.shades[l]=h;let p=M(t.palette,h);i.style.backgroundColor=h===0?"":E(p),i.style.color=h===0?"":Q(p)}),r&&n>=0&&this.inSight!==this.items[n]&&this.reveal(n),this.marked>=0&&this.items[this.marked]?.classList.remove("target","pointed"),this.marked=n;let o=this.items[n];if(o?.classList.add("target"),o?.classList.toggle("pointed",!r),r){let i=this.element.getRootNode().activeElement,l=i&&this.element.contains(i);this.items.forEach((h,p)=>{let u=String(p===n);h.getAttribute("aria-selected")!==u&&h.setAttribute("aria-selected",u),!l&&h.tabIndex===0!=(p===Math.max(0,n))&&(h.tabIndex=p===Math.max(0,n)?0:-1)})}}reveal(t){let e=this.items[t];this.inSight=e;let{element:s}=this,n=e.offsetTop-s.offsetTop,r=n<s.scrollTop,o=n+e.offsetHeight>s.scrollTop+s.clientHeight;(r||o)&&(s.scrollTop=n-s.clientHeight/2)}describe(t,e){this.items[t]?.setAttribute("aria-label",e)}paint(t,e,s,n,r,o,i,l){let h=this.grouping,{palette:p}=e,u=h.size<=40?22:h.size<=150?17:13,d=u*1.8,m=h.groups.map((v,w)=>A(t,h.label(w),u,r-12)),g=ce(h.text.shown),f=0,b=n+d*.8;return m.forEach((v,w)=>{let O=h.text.gaps[h.groups[w].start],k=t.width(v,u)+8;f>0&&(O.includes(`
`)||f+k>r)?(f=0,b+=d):f>0&&O&&(f+=u*.16);let z=i>0&&w!==l?o[w]/i:0,F=M(p,z),R=g?s+r-f-k:s+f,B=w===l?p.ink:void 0;t.rect(R,b-u*1.05,k,u*1.45,z?E(F):null,B,2,5);let At=z?Q(F):h.special(w)&&w!==l?p.quiet:p.ink;t.text(R+k/2,b,v,{size:u,fill:At,align:"center",rtl:ue.test(v)}),f+=k}),b+d*.5-n}};function mt(a){let t=a.map(([s,n])=>`${T(s)} ${x(n)}`),e=t.pop()??"nothing";return t.length?`${t.join(", ")} and ${e}`:e}var U=190,J=22,ft=class{constructor(){this.headline=c("h1",{class:"answer"});this.choices=c("div",{class:"pair-choices"});this.names=[c("h2",{}),c("h2",{})];this.tops=[c("p",{class:"quiet"}),c("p",{class:"quiet"})];this.disputed=c("table",{class:"disputes"});this.matrix=c("div",{class:"wide matrix",tabindex:"0",role:"region","aria-label":"Agreement of measures"});this.leftOut=c("details",{class:"behind"});this.rowsShown=[];this.cell=10;let t=()=>new G("The text: choose a target",{choose:s=>this.choose(s),point:(s,n)=>this.point(s,n)});this.readings=[t(),t()],this.canvas=c("canvas",{role:"img",tabindex:"0",onmousemove:s=>this.over(s),onmouseleave:()=>this.context.actions.tip(null,[]),onclick:s=>this.pick(Math.floor(s.offsetY/J))}),this.table=H("Measures",()=>this.rows());let e=s=>c("section",{class:"pair-side"},this.names[s],this.readings[s].element,this.tops[s]);this.element=c("div",{class:"compare-view"},this.headline,this.choices,c("div",{class:"pair"},e(0),e(1)),c("h2",{},"What they dispute"),this.disputed,c("h2",{},"Every measure, this target"),this.canvas,this.table,c("h2",{},"Rank agreement"),this.matrix,this.leftOut)}choose(t){let{start:e,stop:s}=this.context.sources.groups[t];if(this.context.current.square){for(let n=e;n<s;n++)if(this.context.current.holds(n))return this.context.actions.set({target:n,node:null})}}point(t,e){if(t===null||!e)return this.context.actions.tip(null,[]);let s=this.context.sources.label(t);this.context.actions.tip(e,[s,...this.pair().map(n=>`${this.context.name(n.measured)}: ${x(n.values[t])}`)])}comparable(){let{measured:t,current:e,state:s}=this.context;return t.map((n,r)=>r).filter(n=>t[n].targets===e.targets&&t[n].sources===e.sources&&t[n].holds(s.target))}pair(){let{state:t,measured:e}=this.context;return[t.map,t.other??t.map].map(s=>this.rowsShown.find(n=>n.measured===e[s])).filter(Boolean)}update(t){this.context=t;let e=this.comparable(),{state:s,measured:n}=t;if(e.length<2){this.refuse();return}this.element.classList.remove("alone"),this.rowsShown=e.map(o=>({measured:n[o],values:t.incoming(n[o],{depth:t.depthFor(n[o]),head:null})})),(s.other===null||s.other===s.map||!e.includes(s.other))&&(s.other=this.farthest(e));let r=e.map(o=>[String(o),t.name(n[o])]);this.choices.replaceChildren(P("Compare",r,String(s.map),o=>t.actions.set({map:Number(o),head:null})),P("with",r.filter(([o])=>Number(o)!==s.map),String(s.other),o=>t.actions.set({other:Number(o)}))),this.sides(),this.headlines(),this.disputed.replaceChildren(...le(t,this.pair())),this.draw(),this.matrix.replaceChildren(he(t,this.rowsShown)),this.fillLeftOut(),N(this.table,()=>this.rows())}refuse(){this.element.classList.add("alone"),this.rowsShown=[];let{measure:t}=this.context.current.entry;this.headline.textContent=`Only ${t} holds this target here.`,this.choices.replaceChildren(c("p",{class:"quiet"},"Give the page several measures of the same text to see where they disagree: maps.to_html(path, *others), or mixlens compare … --html out.html."))}farthest(t){let{measured:e,state:s,own:n}=this.context,r=this.rowsShown.find(p=>p.measured===e[s.map]),o=t.filter(p=>p!==s.map),i=o.filter(p=>e[p].entry.layers.length>0),l=(i.length?i:o).filter(p=>e[p].entry.measure!=="random"),h=p=>{let u=this.rowsShown.find(m=>m.measured===e[p]),d=nt(W(r.values,n),W(u.values,n));return Number.isNaN(d)?2:d};return(l.length?l:o).reduce((p,u)=>h(u)<h(p)?u:p)}sides(){let{context:t}=this;this.pair().forEach(({measured:e,values:s},n)=>{let r=C(s,t.own);this.readings[n].show(t.sources,t),this.readings[n].shadeBy(t,s,r,t.own,!0),this.names[n].textContent=t.name(e);let o=$(s,t.own).slice(0,3).map(i=>[t.sources.label(i.group),i.value]);this.tops[n].textContent=`${e.depthName(t.depthFor(e))}: ${mt(o)}`})}headlines(){let{context:t}=this,e=this.pair(),s=e.map(p=>p.values),n=nt(W(s[0],t.own),W(s[1],t.own)),r=dt(s,t.own)[0],o=c("b",{class:"outlined"},t.targets.label(t.targetGroup)),[i,l]=e.map(p=>t.name(p.measured)),h=n>.8?"agree":n>.4?"agree in part":"disagree";this.headline.replaceChildren("About ",o,`, ${i} and ${l} ${h} (rank correlation ${n.toFixed(2)})`),r&&this.headline.append(", most of all on ",c("b",{},t.sources.label(r.group)),`: ${x(s[0][r.group])} against ${x(s[1][r.group])}.`)}draw(){let t=this.element.clientWidth||900,e=this.height(t);this.painted(S(this.canvas,t,e),this.context,0,t),this.canvas.setAttribute("aria-label",`${this.rowsShown.length} measures by ${this.context.sources.size} sources: the shares of the target, as a heat map. A click compares with that measure.`)}height(t){return this.cell=(t-U)/this.context.sources.size,this.rowsShown.length*J+(this.cell>=13?74:6)}painted(t,e,s,n){let{palette:r,own:o,sources:i,state:l,measured:h}=e;this.rowsShown.forEach(({measured:u,values:d},m)=>{let g=s+m*J,f=C(d,o)||1,b=u===h[l.map]||u===h[l.other??-1];t.text(U-10,g+15,A(t,e.name(u),13,U-16),{size:13,align:"right",fill:b?r.ink:r.quiet,weight:b?700:400});for(let v=0;v<i.size;v++){let w=v===o?0:d[v]/f;t.rect(U+v*this.cell,g,Math.max(this.cell-(this.cell>6?1:0),.6),J-2,E(M(r,w)))}});let p=s+this.rowsShown.length*J;o>=0&&this.cell>=3&&t.rect(U+o*this.cell,s-.5,this.cell-1,p-s-1,null,r.ink,1.5,2),this.cell>=13&&i.groups.forEach((u,d)=>t.text(U+(d+.5)*this.cell+4,p+12,A(t,i.label(d),12,88),{size:12,rotate:-45,align:"right",fill:d===o?r.ink:r.quiet,weight:d===o?700:400}))}over(t){let e=this.rowsShown[Math.floor(t.offsetY/J)],s=Math.floor((t.offsetX-U)/this.cell),n=e&&s>=0&&s<this.context.sources.size;this.canvas.style.cursor=e?"pointer":"",this.context.actions.tip(n?t:null,n?[`${T(this.context.sources.label(s))}: ${x(e.values[s])}`,this.context.name(e.measured)]:[])}pick(t){let e=this.rowsShown[t]?.measured,s=e?this.context.measured.indexOf(e):-1;s>=0&&s!==this.context.state.map&&this.context.actions.set({other:s})}fillLeftOut(){let t=Object.entries(this.context.payload.left_out??{});this.leftOut.hidden=t.length===0,this.leftOut.replaceChildren(c("summary",{},`${t.length} measures left out`),c("dl",{},...t.flatMap(([e,s])=>[c("dt",{},e),c("dd",{},s)])))}paint(t,e,s){if(this.rowsShown.length<2)return 0;t.text(0,20,A(t,this.headline.textContent??"",16,s),{size:16,weight:600,fill:e.palette.ink});let n=40;this.pair().forEach(({measured:o,values:i},l)=>{t.text(0,n+14,e.name(o),{size:13,fill:e.palette.quiet}),n+=20+this.readings[l].paint(t,e,0,n+20,s,i,C(i,e.own),e.own)+10});let r=this.height(s);return this.painted(t,e,n,s),this.height(this.element.clientWidth||900),n+r}rows(){let{context:t,rowsShown:e}=this;return[["source",...e.map(s=>t.name(s.measured))],...t.sources.groups.map((s,n)=>[t.sources.label(n),...e.map(r=>r.values[n].toPrecision(3))])]}};function pe(a,t,e){let s=a.entry.layers.length,n=Ge(a),{start:r,stop:o}=t.groups[e],i=new Float64Array(t.of.length),l=0;for(let u=r;u<o;u++)l+=n[s][u];for(let u=r;u<o;u++)i[u]=l>0?1/l:0;let h=Array.from({length:s+1},()=>new Float64Array(t.size));for(let u=r;u<o;u++)h[s][e]+=i[u]*n[s][u];let p=[];for(let u=s-1;u>=0;u--){let d=new Float64Array(i.length),m=new Map;for(let g=0;g<i.length;g++){if(i[g]===0)continue;let f=i[g];a.eachTransition(u,g,(b,v)=>{d[b]+=f*v;let w=t.of[b]*t.size+t.of[g];m.set(w,(m.get(w)??0)+f*v*n[u][b])})}for(let[g,f]of m){let b=Math.floor(g/t.size);h[u][b]+=f,f>1e-4&&p.push({level:u,source:b,target:g%t.size,value:f})}i=d}return{levels:s+1,mass:h,edges:p}}function Ge(a){let t=a.sources.labels.length,e=[new Float64Array(t).fill(1)];return a.entry.layers.forEach((s,n)=>{let r=new Float64Array(t).fill(a.entry.joined?.normalize===!1?0:1);if(a.entry.joined?.normalize===!1)for(let o=0;o<t;o++)a.eachTransition(n,o,(i,l)=>{r[o]+=l*e[n][i]});e.push(r)}),e}function de(a,t,e){let s=[],n=a.mass.map(()=>[]);for(let o of a.edges)n[o.level].push(o);let r=new Float64Array(a.mass[t].length);r[e]=a.mass[t][e];for(let o=t-1;o>=0;o--){let i=new Float64Array(r.length);for(let l of n[o]){let h=a.mass[o+1][l.target],p=h>0?l.value*r[l.target]/h:0;p>0&&s.push({...l,value:p}),i[l.source]+=p}r=i}r=new Float64Array(r.length),r[e]=a.mass[t][e];for(let o=t;o<a.levels-1;o++){let i=new Float64Array(r.length);for(let l of n[o]){let h=a.mass[o][l.source],p=h>0?l.value*r[l.source]/h:0;p>0&&s.push({...l,value:p}),i[l.target]+=p}r=i}return s}var D=64,me=40,fe=92,Ue=1200,bt=class{constructor(){this.words=c("p",{class:"quiet","aria-live":"polite"});this.shown=c("output",{});this.flow=null;this.key="";this.width=0;this.step=54;this.at=null;this.canvas=c("canvas",{tabindex:"0",role:"img",onmousemove:t=>this.over(t),onmouseleave:()=>{this.at=null,this.context.actions.tip(null,[]),this.draw()},onclick:()=>this.trace(),onkeydown:t=>this.walk(t)}),this.slider=c("input",{type:"range",min:"0",max:"100",step:"1","aria-label":"Smallest share that is drawn",oninput:()=>this.context.actions.set({threshold:Be(Number(this.slider.value))})}),this.controls=c("label",{class:"field"},c("span",{},"Show from"),this.slider,this.shown),this.table=H("Flow",()=>this.rows()),this.element=c("div",{class:"flow-view"},c("div",{class:"bar-line"},this.words,this.controls),this.canvas,this.table)}update(t){this.context=t;let{current:e,state:s,targets:n}=t,r=this.refusal();if(this.canvas.hidden=this.table.hidden=this.controls.hidden=r!==null,r!==null){this.words.textContent=r;return}let o=[s.map,s.target,s.unit,s.open,n.size].join(" ");o!==this.key&&(this.key=o,this.flow=pe(e,n,n.of[s.target])),this.slider.value=String(Ve(s.threshold)),this.shown.textContent=x(s.threshold),this.canvas.setAttribute("aria-label","The flow from the input tokens to the target. Arrow keys move between tokens and layers, Enter traces one."),this.draw(),N(this.table,()=>this.rows())}refusal(){let{current:t,targets:e}=this.context;return t.entry.reaches_input?`Each layer of ${t.entry.measure} already speaks of the input tokens: there is nothing to follow.`:!t.whole||!t.entry.joined?"A flow needs the maps of every layer for every token of one text. These hold some targets, some layers or two texts.":e.size>Ue?"The text is too long to follow: choose words or segments above.":null}edges(){let{node:t,threshold:e}=this.context.state,s=this.flow;return(t&&t[0]<s.levels&&t[1]<this.context.targets.size?de(s,t[0],t[1]):s.edges).filter(o=>o.value>=e).sort((o,i)=>o.value-i.value)}x(t){return D+(t+.5)*(this.width-D-12)/this.context.targets.size}y(t){return me+(this.flow.levels-1-t)*this.step}draw(){if(this.canvas.hidden||!this.flow)return;this.width=this.element.clientWidth||900,this.step=this.flow.levels>14?34:56;let t=this.y(0)+fe,e=S(this.canvas,this.width,t);this.painted(e,this.context)}painted(t,e){let{palette:s,state:n,targets:r,current:o}=e,i=this.flow,l=this.edges(),h=o.entry.layers;for(let k=0;k<i.levels;k++){let z=k===0?"input":`${k===i.levels-1?"layer ":""}${h[k-1]}`;t.text(D-12,this.y(k)+4,z,{size:12,fill:s.quiet,align:"right"}),t.rect(D,this.y(k),this.width-D-12,.5,s.line)}let p=E(M(s,.78)),u=new Map,d=n.node&&i.mass[n.node[0]]?.[n.node[1]]||1;for(let k of l){let z=k.value/d,F=Math.max(.8,15*z);t.curve(this.x(k.source),this.y(k.level),this.x(k.target),this.y(k.level+1),F,p,Math.min(.9,.22+1.6*z));for(let[R,B]of[[k.level,k.source],[k.level+1,k.target]])u.set(`${R} ${B}`,i.mass[R][B])}let m=i.levels-1,g=r.of[n.target];u.set(`${m} ${g}`,1);for(let[k,z]of u){let[F,R]=k.split(" ").map(Number),B=n.node?.[0]===F&&n.node[1]===R,At=this.at?.[0]===F&&this.at[1]===R;t.circle(this.x(R),this.y(F),2.5+5.5*Math.sqrt(z),p,B||At?s.ink:s.paper)}let f=t.width(r.label(g),14,700)/2,b=Math.max(f,Math.min(this.width-f-2,this.x(g)));t.text(b,this.y(m)-16,r.label(g),{size:14,weight:700,fill:s.ink,align:"center"}),this.inputs(t,e,u);let v=n.node?` through ${T(r.label(n.node[1]))} at ${gt(n.node[0],h)}`:"",w=T(r.label(g)),O=n.node?i.mass[n.node[0]]?.[n.node[1]]??0:0;this.words.textContent=v?`${x(O)} of ${w} passes${v}. Click it again to see everything.`:`How ${w} is put together, from the input below to the last layer above. Click a point to trace what passes it.`}inputs(t,e,s){let{palette:n,targets:r}=e,o=(this.width-D)/r.size,i=r.groups.map((h,p)=>p).sort((h,p)=>this.flow.mass[0][p]-this.flow.mass[0][h]),l=[];for(let h of i){let p=this.x(h),u=s.has(`0 ${h}`);if(o<15&&(!u||l.some(m=>Math.abs(m-p)<15)))continue;l.push(p);let d=A(t,r.label(h),12,84);t.text(p+4,this.y(0)+18,d,{size:12,rotate:-50,align:"right",fill:u?n.ink:n.quiet,weight:u?600:400})}}over(t){let e=this.flow,s=e.levels-1-Math.round((t.offsetY-me)/this.step),n=Math.round((t.offsetX-D)*this.context.targets.size/(this.width-D-12)-.5),r=s>=0&&s<e.levels&&n>=0&&n<this.context.targets.size;this.at=r?[s,n]:null,this.canvas.style.cursor=r?"pointer":"",this.context.actions.tip(r?t:null,this.sentence()),this.draw()}sentence(){if(!this.at)return[];let[t,e]=this.at,{context:s}=this,n=s.targets.label(s.targets.of[s.state.target]),{layers:r}=s.current.entry;return[`${T(s.targets.label(e))} at ${gt(t,r)}`,`${x(this.flow.mass[t][e])} of ${n} passes here`]}trace(){if(!this.at)return;let{node:t}=this.context.state,e=t&&t[0]===this.at[0]&&t[1]===this.at[1];this.context.actions.set({node:e?null:[...this.at]})}walk(t){let s={ArrowUp:[1,0],ArrowDown:[-1,0],ArrowLeft:[0,-1],ArrowRight:[0,1]}[t.key];if(t.key==="Enter")return this.trace();if(!s)return;t.preventDefault();let{context:n}=this,[r,o]=this.at??[this.flow.levels-1,n.targets.of[n.state.target]];this.at=[Math.max(0,Math.min(this.flow.levels-1,r+s[0])),Math.max(0,Math.min(n.targets.size-1,o+s[1]))],n.actions.announce(this.sentence().join(", ")),this.draw()}paint(t,e,s){if(!this.flow||this.canvas.hidden)return 0;this.width=s,this.painted(t,e);let n=this.y(0)+fe;return this.draw(),n}rows(){let{context:t}=this,e=t.current.entry.layers;return[["from","source","to","target","share of the target"],...this.edges().reverse().map(s=>[gt(s.level,e),t.targets.label(s.source),gt(s.level+1,e),t.targets.label(s.target),s.value.toPrecision(3)])]}};function gt(a,t){return a===0?"the input":`layer ${t[a-1]}`}function Be(a){return Number((.001*500**(a/100)).toPrecision(2))}function Ve(a){return Math.round(Math.log(Math.max(a,.001)/.001)/Math.log(500)*100)}var vt=255,ge=new Map;function Ke(a){let t=ge.get(a);if(!t){t=new Uint32Array(2*vt+1);for(let e=0;e<t.length;e++){let[s,n,r]=M(a,(e-vt)/vt);t[e]=(255<<24|r<<16|n<<8|s)>>>0}ge.set(a,t)}return t}function Y(a,t,e,s,n){let r=document.createElement("canvas");r.width=s,r.height=e;let o=r.getContext("2d"),i=o.createImageData(s,e),l=new Uint32Array(i.data.buffer),h=Ke(a);for(let p=0;p<t.length;p++){let u=Math.max(-1,Math.min(1,t[p]/n));l[p]=h[Math.round((u+1)*vt)]}return o.putImageData(i,0,0),r}function rt(a,t,e){let s=1e-12;for(let n=0;n<a.length;n++)e&&Math.floor(n/t)===n%t||(s=Math.max(s,Math.abs(a[n])));return s}var X=58,xt=24,I=6,Je=400,wt=class{constructor(){this.words=c("p",{class:"quiet"});this.tile=64;this.pictures=[];this.key="";this.at=null;this.others=c("div",{class:"pair-choices"});this.canvas=c("canvas",{tabindex:"0",role:"img",onmousemove:t=>this.over(t),onmouseleave:()=>{this.at=null,this.context.actions.tip(null,[]),this.draw()},onclick:()=>this.enter(),onkeydown:t=>this.walk(t)}),this.table=H("Heads",()=>this.rows()),this.whole=c("button",{type:"button",onclick:()=>this.context.actions.set({head:null})},"Back to whole layers"),this.element=c("div",{class:"heads-view"},c("div",{class:"bar-line"},this.words,this.whole),this.others,this.canvas,this.table)}update(t){this.context=t;let{current:e}=t,s=e.heads===0;if(this.canvas.hidden=this.table.hidden=s,this.whole.hidden=t.state.head===null,s){let n=e.entry.notes?.find(o=>o.includes("heads are left out"));this.words.textContent=n??`Heads were not measured. Give the page these maps together with lens.measure("${e.entry.measure}", text, per_head=True).`;let r=t.measured.map((o,i)=>i).filter(o=>t.measured[o].heads>0);this.others.replaceChildren(...r.map(o=>c("button",{type:"button",onclick:()=>t.actions.set({map:o})},`Heads of ${t.name(t.measured[o])}`)));return}this.others.replaceChildren(),this.words.textContent="Layers down, heads across. In each, targets down and sources across, shaded by its own largest share. A click opens one.",this.prepare(),this.canvas.setAttribute("aria-label",`${e.entry.layers.length} layers by ${e.heads} heads. Arrow keys move, Enter opens a head.`),this.draw(),N(this.table,()=>this.rows())}prepare(){let{context:t}=this,{current:e,targets:s,sources:n,palette:r,state:o}=t,i=[o.map,r.dark,s.size,n.size,o.unit].join(" ");if(i===this.key)return;this.key=i;let l=[...new Set(e.held.map(h=>s.of[h]))].sort((h,p)=>h-p).slice(0,Je);this.pictures=e.entry.layers.flatMap((h,p)=>Array.from({length:e.heads},(u,d)=>{let m=new Float32Array(l.length*n.size);l.forEach((f,b)=>m.set(e.incoming({depth:p,head:d},s,f,n),b*n.size));let g=rt(m,n.size,e.square&&l.length===n.size);return Y(r,m,l.length,n.size,g)}))}size(t){let{heads:e,entry:s}=this.context.current;return this.tile=Math.max(18,Math.min(132,(t-X)/e-I)),[X+e*(this.tile+I),xt+s.layers.length*(this.tile+I)]}draw(){if(this.canvas.hidden)return;let[t,e]=this.size(this.element.clientWidth||900);this.painted(S(this.canvas,t,e),this.context)}painted(t,e){let{palette:s,current:n,state:r}=e,{tile:o}=this,i={size:12,fill:s.quiet};for(let l=0;l<n.heads;l++)t.text(X+l*(o+I)+o/2,xt-9,l===0?"head 0":String(l),{...i,align:"center"});n.entry.layers.forEach((l,h)=>{let p=xt+h*(o+I);t.text(X-10,p+o/2+4,h===0?`layer ${l}`:String(l),{...i,align:"right"});for(let u=0;u<n.heads;u++){let d=X+u*(o+I);t.image(this.pictures[h*n.heads+u],d,p,o,o);let m=r.head===u&&r.depth===h,g=this.at?.[0]===h&&this.at[1]===u;t.rect(d,p,o,o,null,m||g?s.ink:s.line,m?3:g?2:1)}})}over(t){let e=Math.floor((t.offsetX-X)/(this.tile+I)),s=Math.floor((t.offsetY-xt)/(this.tile+I)),{current:n}=this.context,r=e>=0&&s>=0&&e<n.heads&&s<n.entry.layers.length;this.at=r?[s,e]:null,this.canvas.style.cursor=r?"pointer":"",this.context.actions.tip(r?t:null,this.sentence()),this.draw()}sentence(){if(!this.at)return[];let[t,e]=this.at,{context:s}=this,n=s.incoming(s.current,{depth:t,head:e}),r=$(n,s.own).slice(0,3),o=s.targets.label(s.targetGroup);return[`Layer ${s.current.entry.layers[t]}, head ${e}`,...r.map(({group:i,value:l})=>`${T(s.sources.label(i))}: ${x(l)} of ${T(o)}`)]}enter(){this.at&&this.context.actions.set({depth:this.at[0],head:this.at[1],view:"map"})}walk(t){let s={ArrowUp:[-1,0],ArrowDown:[1,0],ArrowLeft:[0,-1],ArrowRight:[0,1]}[t.key];if(t.key==="Enter")return this.enter();if(!s)return;t.preventDefault();let{current:n}=this.context,[r,o]=this.at??[0,-1];this.at=[Math.max(0,Math.min(n.entry.layers.length-1,r+s[0])),Math.max(0,Math.min(n.heads-1,o+s[1]))],this.context.actions.announce(this.sentence().join(", ")),this.draw()}paint(t,e,s){if(!e.current.heads)return 0;this.prepare();let[,n]=this.size(s);return this.painted(t,e),n}rows(){let{context:t}=this,{current:e}=t,s=t.targets.label(t.targetGroup),n=[["layer","head","target","largest source","share"]];return e.entry.layers.forEach((r,o)=>{for(let i=0;i<e.heads;i++){let l=t.incoming(e,{depth:o,head:i}),h=$(l,t.own)[0];n.push([String(r),String(i),s,h?t.sources.label(h.group):"",C(l,t.own).toPrecision(3)])}}),n}};var Ye=2500,y=108,Dt=10,yt=class{constructor(){this.spacer=c("div",{class:"spacer"});this.words=c("p",{class:"quiet"});this.values=new Float32Array;this.picture=null;this.key="";this.cell=16;this.zoom=1;this.at=null;this.canvas=c("canvas",{tabindex:"0",role:"img",onmousemove:e=>this.over(e),onmouseleave:()=>this.moved(null,null),onclick:()=>this.choose(),onkeydown:e=>this.walk(e)}),this.scroller=c("div",{class:"scroller",onscroll:()=>this.draw()},this.canvas,this.spacer),this.table=H("Map",()=>this.rows());let t=c("label",{class:"field"},c("span",{},"Zoom"),c("input",{type:"range",min:"1",max:"12",step:"0.5",value:"1",oninput:e=>{this.zoom=Number(e.target.value),this.layout()}}));this.element=c("div",{class:"map-view"},c("div",{class:"bar-line"},this.words,t),this.scroller,this.table)}update(t){this.context=t;let{targets:e,sources:s,current:n,state:r}=t,o=this.held();if(Math.max(o.length,s.size)>Ye){this.words.textContent=`${o.length} × ${s.size} cells are too many to see: choose words or segments above.`,this.scroller.hidden=!0;return}this.scroller.hidden=!1;let i=[r.map,r.depth,r.head,t.palette.dark,e.size,s.size,r.unit,r.open].join(" ");if(i!==this.key){this.key=i;let l=new Float32Array(o.length*s.size);o.forEach((u,d)=>l.set(n.incoming(t.choice,e,u,s),d*s.size)),this.values=l;let h=rt(l,s.size,n.square&&o.length===s.size);this.picture=Y(t.palette,l,o.length,s.size,h);let p=t.palette.dark?"brightest":"darkest";this.words.textContent=`Targets down, sources across. The ${p} cell off the diagonal is ${x(h)} of its target.`}this.canvas.setAttribute("aria-label",`Map of ${o.length} targets by ${s.size} sources. Arrow keys move, Enter chooses the target.`),this.layout(),N(this.table,()=>this.rows())}held(){let{targets:t,current:e}=this.context;return[...new Set(e.held.map(n=>t.of[n]))].sort((n,r)=>n-r)}layout(){if(this.scroller.hidden)return;let{sources:t}=this.context,e=this.held().length,s=Math.max(200,this.scroller.clientWidth||900)-y-16,n=Math.max(240,window.innerHeight*.7)-y,r=Math.min(26,s/t.size,Math.max(n/e,7));this.cell=Math.max(r,1)*this.zoom;let[o,i]=[t.size*this.cell+y+Dt,e*this.cell+y+Dt],l=Math.max(320,window.innerHeight*.78);this.scroller.style.height=`${Math.min(i+18,l)}px`,this.spacer.style.width=`${o}px`,this.spacer.style.height=`${i}px`,this.draw()}draw(){let t=this.scroller.clientWidth,e=this.scroller.clientHeight;if(!t||!this.picture)return;let s=S(this.canvas,t,e);this.painted(s,this.context,this.cell,this.scroller.scrollLeft,this.scroller.scrollTop,t,e)}painted(t,e,s,n,r,o,i){let{palette:l,sources:h,targets:p}=e,u=this.held();t.image(this.picture,y-n,y-r,h.size*s,u.length*s);let d=u.indexOf(e.targets.of[e.state.target]);if(d>=0&&t.rect(y-n,y-r+d*s,h.size*s,Math.max(s,2),null,l.ink,1.5),this.at){let[g,f]=this.at;t.rect(y-n+f*s,y-r+g*s,Math.max(s,2),Math.max(s,2),null,l.ink,2)}t.rect(0,0,y-2,i,l.paper),t.rect(0,0,o,y-2,l.paper);let m=Math.max(1,Math.ceil(12/s));this.names(t,p,u,m,s,(g,f,b)=>{let v=y-r+(g+.5)*s;v>y-4&&v<i&&t.text(y-8,v+4,A(t,f,12,y-14),{size:12,align:"right",fill:b?l.ink:l.quiet,weight:b?700:400})},this.at?.[0]??-1,d),this.names(t,h,h.groups.map((g,f)=>f),m,s,(g,f,b)=>{let v=y-n+(g+.5)*s;v>y-4&&v<o&&t.text(v+4,y-8,A(t,f,12,y+6),{size:12,rotate:-60,fill:b?l.ink:l.quiet,weight:b?700:400})},this.at?.[1]??-1,-1),t.rect(0,0,y-14,y-30,l.paper)}names(t,e,s,n,r,o,i,l){s.forEach((h,p)=>{let u=i>=0&&Math.abs(p-i)*r<12&&p!==i;(p===i||p===l||p%n===0&&!u)&&o(p,e.label(h),p===i||p===l)})}over(t){let e=Math.floor((t.offsetX-y+this.scroller.scrollLeft)/this.cell),s=Math.floor((t.offsetY-y+this.scroller.scrollTop)/this.cell),n=t.offsetX>=y&&t.offsetY>=y&&s<this.held().length&&e<this.context.sources.size;this.moved(n?[s,e]:null,t)}moved(t,e){this.at=t;let s=this.sentence();this.context.actions.tip(t?e:null,s),this.canvas.style.cursor=t?"pointer":"",this.draw()}sentence(){if(!this.at)return[];let{context:t}=this,[e,s]=this.at,n=this.held()[e],r=this.values[e*t.sources.size+s],o=t.current.total(t.choice,t.targets.groups[n].start),i=[`${T(t.sources.label(s))} → ${T(t.targets.label(n))}`,x(r)];return o!==null&&t.state.unit==="tokens"&&i.push(`score ${(r*o).toPrecision(3)}`),i}choose(){if(!this.at)return;let{start:t,stop:e}=this.context.targets.groups[this.held()[this.at[0]]];for(let s=t;s<e;s++)if(this.context.current.holds(s))return this.context.actions.set({target:s,node:null})}walk(t){let s={ArrowUp:[-1,0],ArrowDown:[1,0],ArrowLeft:[0,-1],ArrowRight:[0,1]}[t.key];if(t.key==="Enter")return this.choose();if(!s)return;t.preventDefault();let[n,r]=this.at??[0,-1],o=(i,l)=>Math.max(0,Math.min(l-1,i));this.at=[o(n+s[0],this.held().length),o(r+s[1],this.context.sources.size)],this.context.actions.announce(this.sentence().join(", ")),this.draw()}paint(t,e,s){let{sources:n}=e,r=this.held().length,o=Math.min(28,Math.max(1,(s-y)/n.size)),i=this.at;this.at=null;let l=r*o+y;if(n.size*r<=4e3){this.painted(t,e,o,0,0,s,l+2),this.cells(t,e,o,r);let h=this.held().indexOf(e.targets.of[e.state.target]),[p,u]=[y+h*o,n.size*o];h>=0&&t.rect(y,p,u,o,null,e.palette.ink,1.5)}else this.painted(t,e,o,0,0,s,l+2);return this.at=i,l+Dt}cells(t,e,s,n){let r=e.sources.size,o=rt(this.values,r,e.current.square&&n===r);for(let i=0;i<this.values.length;i++){let l=Math.max(-1,Math.min(1,this.values[i]/o));t.rect(y+i%r*s,y+Math.floor(i/r)*s,s-.5,s-.5,E(M(e.palette,l)))}}rows(){let{context:t}=this,e=t.sources.size;return[["target",...t.sources.groups.map((s,n)=>t.sources.label(n))],...this.held().map((s,n)=>[t.targets.label(s),...Array.from(this.values.subarray(n*e,(n+1)*e),r=>r.toPrecision(3))])]}};function be(a,t){let e=Object.entries(a.evaluations),[s,...n]=a.verdict.split(`
`),r=c("tr",{},c("th",{scope:"col"},"measure"),c("th",{scope:"col"},"mean rank"),...e.map(([i,{direction:l}])=>c("th",{scope:"col"},i.replaceAll("_"," "),c("small",{},l==="neither"?"":`${l} is better`)))),o=a.measures.map(({measure:i,mean_rank:l})=>c("tr",{class:i==="random"?"baseline":null},c("th",{scope:"row"},i),c("td",{},kt(l)),...e.map(([,{measures:h}])=>Xe(h[i],Object.values(h),t))));return c("div",{class:"ranking-view"},c("h1",{class:"answer"},s??""),...n.map(i=>c("p",{},i)),c("div",{class:"wide",tabindex:"0",role:"region","aria-label":"Ranked measures"},c("table",{class:"ranks"},c("caption",{class:"quiet"},`${a.texts} texts. Dots lie between the lowest and the highest value of the column, with their 95 % interval. Bold is best, grey italics are not better than random numbers.`),c("thead",{},r),c("tbody",{},...o))),c("h2",{},"What was asked"),c("dl",{},...e.flatMap(([i,{summary:l}])=>[c("dt",{},i.replaceAll("_"," ")),c("dd",{},l)])))}function kt(a){return a==null?"–":a.toFixed(2).replace("-","−")}function Xe(a,t,e){if(!a||a.value===null)return c("td",{},"–");let s=t.flatMap(u=>[u.low,u.high,u.value]).filter(u=>u!==null),[n,r]=[Math.min(...s),Math.max(...s)],o=u=>r>n?(u-n)/(r-n)*100:50,i=c("span",{class:"interval"});i.style.left=`${o(a.low??a.value)}%`,i.style.width=`${o(a.high??a.value)-o(a.low??a.value)}%`;let l=c("span",{class:"dot"});l.style.left=`${o(a.value)}%`,l.style.backgroundColor=a.not_better_than_random?e.quiet:E(M(e,.75));let h=a.is_best?"best":a.not_better_than_random?"luck":null,p=a.low===null?"":`${kt(a.low)} to ${kt(a.high)}`;return c("td",{class:h,title:p},kt(a.value),c("span",{class:"scale","aria-hidden":"true"},i,l))}var L=64,Ze=7,Mt=class{constructor(){this.name=c("h2",{});this.strips=[];this.rowHeight=18;this.cell=1;this.canvas=c("canvas",{tabindex:"0",role:"img",onmousemove:t=>this.over(t),onmouseleave:()=>this.context.actions.tip(null,[]),onclick:t=>this.choose(this.hit(t)?.strip??-1),onkeydown:t=>this.key(t)}),this.table=H("Layers",()=>this.rows()),this.element=c("section",{class:"layers","aria-label":"Layer by layer"},this.name,this.canvas,this.table)}update(t){this.context=t;let{current:e}=t;if(this.element.hidden=e.entry.layers.length<2,this.element.hidden)return;let s=e.entry.layers.map((i,l)=>l);e.depths.includes("all")?s.push("all"):e.depths.includes("mean")&&s.push("mean"),this.strips=s.map(i=>({depth:i,name:i==="all"?"all":i==="mean"?"mean":String(e.entry.layers[i]),values:t.incoming(e,{depth:i,head:typeof i=="number"?t.state.head:null})}));let n=this.element.clientWidth||640,r=this.height(n);this.draw(S(this.canvas,n,r),n);let o=t.targets.label(t.targetGroup);this.name.replaceChildren("What ",c("b",{},o)," took in each layer"),this.canvas.setAttribute("aria-label",`What ${T(o)} took in each layer, as a heat map: ${this.strips.length} rows, ${t.sources.size} columns. Arrow keys up and down choose a layer.`),N(this.table,()=>this.rows())}height(t){let e=this.strips.length;return this.rowHeight=e>40?7:e>16?11:18,this.cell=(t-L)/this.context.sources.size,this.top(e)+this.labels(t)}top(t){let e=this.strips.length-1,s=typeof this.strips[e]?.depth=="string";return t*this.rowHeight+(s&&t>=e?Ze:0)}labels(t){return this.cell<13?this.context.current.sources.seconds?18:4:this.slanted(t)?74:20}slanted(t){let e=new _(this.canvas.getContext("2d")),s=(t-L)/this.context.sources.size;return this.context.sources.groups.some((n,r)=>e.width(this.context.sources.label(r),12)>s-4)}draw(t,e,s=0){let{context:n,strips:r,rowHeight:o}=this,{palette:i,own:l,state:h}=n,p=d=>Math.max(1e-12,...r.filter(m=>typeof m.depth=="string"===d).map(m=>C(m.values,l))),u=[p(!1),p(!0)];r.forEach((d,m)=>{let g=s+this.top(m),f=d.depth===h.depth,b=u[typeof d.depth=="string"?1:0],v=o>=13?1:o>=10?2:4;(m%v===0||f||typeof d.depth=="string")&&t.text(L-10,g+o/2+4,`${m===0?"layer ":""}${d.name}`,{size:12,fill:f?i.ink:i.quiet,weight:f?700:400,align:"right"}),this.cells(t,d.values,l,b,g),f&&t.rect(L-1,g-1,e-L+1,o+.5,null,i.ink,1.5,3)}),this.drawColumns(t,e,s)}cells(t,e,s,n,r){let{context:o,cell:i,rowHeight:l}=this,h=m=>Math.max(-1,Math.min(1,m/n));if(i>=6){e.forEach((m,g)=>{let f=E(M(o.palette,h(m)));t.rect(L+g*i,r,i-1,l-1.5,f)});return}let p=Math.max(1,Math.round(1.5/i)),u=new Float32Array(Math.ceil(e.length/p));e.forEach((m,g)=>{let f=Math.floor(g/p);g!==s&&Math.abs(m)>Math.abs(u[f])&&(u[f]=m)});let d=Y(o.palette,u,1,u.length,n);t.image(d,L,r,i*p*u.length,l-1.5)}drawColumns(t,e,s){let{context:n,cell:r}=this,{palette:o,own:i,sources:l}=n,h=s+this.top(this.strips.length)-1,p=n.current.sources.seconds;if(p){let d=It(p*l.size);for(let m=0;m<=p*l.size;m+=d)t.text(L+m/p*r,h+14,`${Number(m.toFixed(2))} s`,{size:11,fill:o.quiet,align:m+d>p*l.size?"right":m?"center":"left"});return}if(i>=0&&r>=3&&t.rect(L+i*r-.5,s-.5,r,h-s+.5,null,o.ink,1.5,2),r<13)return;let u=this.slanted(e);l.groups.forEach((d,m)=>{let g=L+(m+.5)*r,f={size:12,fill:m===i?o.ink:o.quiet,weight:m===i?700:400},b=A(t,l.label(m),12,u?88:r);u?t.text(g+4,h+12,b,{...f,align:"right",rotate:-45}):t.text(g,h+15,b,{...f,align:"center"})})}hit(t){let e=this.strips.findIndex((n,r)=>t.offsetY>=this.top(r)&&t.offsetY<this.top(r)+this.rowHeight),s=Math.floor((t.offsetX-L)/this.cell);return e<0?null:{strip:e,group:s>=0&&s<this.context.sources.size?s:-1}}over(t){let e=this.hit(t);if(this.canvas.style.cursor=e?"pointer":"",!e||e.group<0)return this.context.actions.tip(null,[]);let{strip:s,group:n}=e,{context:r}=this,o=this.strips[s].values[n],i=r.targets.label(r.targetGroup);r.actions.tip(t,[`${T(r.sources.label(n))}: ${x(o)} of ${T(i)}`,r.current.depthName(this.strips[s].depth)])}choose(t){let e=this.strips[t]?.depth;e!==void 0&&this.context.actions.set({depth:e,head:typeof e=="number"?this.context.state.head:null})}key(t){let e={ArrowUp:-1,ArrowDown:1}[t.key];if(!e)return;t.preventDefault();let s=this.strips.findIndex(r=>r.depth===this.context.state.depth),n=Math.max(0,Math.min(this.strips.length-1,s+e));this.choose(n),this.context.actions.announce(this.context.current.depthName(this.strips[n].depth))}paint(t,e,s,n){if(this.element.hidden)return 0;let r=this.height(n);return this.draw(t,n,s),r}rows(){let{sources:t}=this.context;return[["source",...this.strips.map(e=>this.context.current.depthName(e.depth))],...t.groups.map((e,s)=>[t.label(s),...this.strips.map(n=>n.values[s].toPrecision(3))])]}};function It(a){let t=a/6,e=10**Math.floor(Math.log10(t));return([1,2,5,10].find(s=>s*e>=t)??10)*e}var Et=class{constructor(){this.picture=new Image;this.grey=null;this.context=null;this.values=[];this.scale=0;this.canvas=c("canvas",{role:"img","aria-label":"The picture, its patches shaded by their share; the ranked list has the numbers",onmousemove:t=>this.over(t),onmouseleave:()=>this.over(null),onclick:t=>this.choose(t)}),this.element=c("figure",{class:"picture"},this.canvas),this.picture.addEventListener("load",()=>{this.grey=Qe(this.picture),this.draw()})}show(t,e,s){let{image:n}=t.payload;n&&(Object.assign(this,{context:t,values:e,scale:s}),this.picture.src!==n.src&&(this.picture.src=n.src),this.draw())}size(t){let e=(this.picture.naturalHeight||1)/(this.picture.naturalWidth||1),s=Math.min(t,520,520/e);return[s,s*e]}draw(){if(!this.context||!this.picture.naturalWidth)return;let[t,e]=this.size(this.element.clientWidth||420);this.painted(S(this.canvas,t,e),this.context,0,0,t,e)}painted(t,e,s,n,r,o){let{rows:i,columns:l,first:h}=e.payload.image,{sources:p,own:u}=e;t.image(this.grey??this.picture,s,n,r,o,!0);let[d,m]=[r/l,o/i];for(let g=0;g<i*l;g++){let f=p.of[h+g];if(f===void 0)break;let b=this.scale>0?this.values[f]/this.scale:0,[v,w]=[s+g%l*d,n+Math.floor(g/l)*m],O=Math.min(.85,b**2*.85),k=E(M(at,b<0?-.75:.75)).replace(")",`, ${O})`);t.rect(v,w,d,m,k),f===u&&t.rect(v+1,w+1,d-2,m-2,null,"#ffffff",3)}}patch(t){let{context:e}=this;if(!e)return null;let{rows:s,columns:n,first:r}=e.payload.image,o=Math.floor(t.offsetX/this.canvas.clientWidth*n),i=Math.floor(t.offsetY/this.canvas.clientHeight*s);return r+i*n+o}over(t){let{context:e}=this,s=t&&this.patch(t);if(!e||s===null||!t){e?.actions.tip(null,[]);return}let{columns:n,first:r}=e.payload.image,o=e.sources.of[s]??0,i=`row ${Math.floor((s-r)/n)}, column ${(s-r)%n}`;e.actions.tip(t,[`Patch in ${i}`,`${x(this.values[o]??0)} of the target`])}choose(t){let e=this.patch(t);this.context&&e!==null&&this.context.current.square&&this.context.current.holds(e)&&this.context.actions.set({target:e})}paint(t,e,s,n,r,o,i){Object.assign(this,{values:o,scale:i});let[l,h]=this.size(r);return this.painted(t,e,s,n,l,h),h}};function Qe(a){let t=document.createElement("canvas");t.width=a.naturalWidth,t.height=a.naturalHeight;let e=t.getContext("2d");e.drawImage(a,0,0);let s=e.getImageData(0,0,t.width,t.height);for(let n=0;n<s.data.length;n+=4){let[r,o,i]=s.data.subarray(n,n+3);s.data.fill(.3*r+.59*o+.11*i,n,n+3)}return e.putImageData(s,0,0),t}var Z=120,ve=22,Tt=class{constructor(){this.context=null;this.values=[];this.scale=0;this.canvas=c("canvas",{role:"img","aria-label":"The share of each frame over time; the ranked list has the numbers",onmousemove:t=>this.over(t),onmouseleave:()=>this.context?.actions.tip(null,[])}),this.element=c("figure",{class:"strip"},this.canvas)}show(t,e,s){if(!t.current.sources.seconds)return;Object.assign(this,{context:t,values:e,scale:s});let n=this.element.clientWidth||640;this.painted(S(this.canvas,n,Z+ve),t,0,0,n)}painted(t,e,s,n,r){let{palette:o}=e,i=e.current.sources.seconds,l=r/this.values.length;for(let u=0;u<this.values.length;u++){let d=this.scale>0?this.values[u]/this.scale:0,m=Math.max(1,Math.abs(d)*Z),g=E(M(o,.25*Math.sign(d||1)+.75*d));t.rect(s+u*l,n+Z-m,Math.max(l-(l>4?1:0),.7),m,g)}t.rect(s,n+Z,r,1,o.quiet);let h=i*this.values.length,p=It(h);for(let u=0;u<=h+1e-9;u+=p)t.text(s+u/h*r,n+Z+16,`${Number(u.toFixed(2))} s`,{size:12,fill:o.quiet,align:u===0?"left":u+p>h?"right":"center"})}over(t){let{context:e}=this;if(!e)return;let s=Math.floor(t.offsetX/this.canvas.clientWidth*this.values.length),n=Math.max(0,Math.min(this.values.length-1,s));e.actions.tip(t,[e.sources.label(n),`${x(this.values[n])} of the target`])}paint(t,e,s,n,r,o,i){return Object.assign(this,{values:o,scale:i}),this.painted(t,e,s,n,r),Z+ve}};var $t=12,ts=6,Ct=class{constructor(){this.answer=c("h1",{class:"answer"});this.legend=c("p",{class:"legend"});this.picture=new Et;this.strip=new Tt;this.sourceName=c("h2",{},"Source");this.targetName=c("h2",{},"Target");this.layers=new Mt;this.inList=c("table",{class:"ranked"});this.outList=c("table",{class:"ranked"});this.outName=c("h2",{});this.inName=c("h2",{});this.rest=c("p",{class:"quiet"});this.pointedSource=null;this.sourceText=new G("The text: choose a target",{choose:t=>this.choose(t,!0),point:(t,e)=>this.point(t,e,!0),close:t=>this.close(t)}),this.targetText=new G("The target side: choose a target",{choose:t=>this.choose(t,!1),point:(t,e)=>this.point(t,e,!1),close:t=>this.close(t)}),this.element=c("div",{class:"text-view"},this.answer,c("div",{class:"columns"},c("div",{class:"main"},this.targetName,this.targetText.element,this.sourceName,this.picture.element,this.strip.element,this.sourceText.element,this.legend,this.layers.element),c("aside",{class:"side","aria-label":"Ranked sources"},this.inName,this.inList,this.rest,this.outName,this.outList)))}choose(t,e){let{context:s}=this,n=e?s.sources:s.targets,{start:r,stop:o,segment:i}=n.groups[t];if(i!==null){s.actions.set({open:[...s.state.open,i]});return}if(!(e&&!s.current.square)){for(let l=r;l<o;l++)if(s.current.holds(l)){s.actions.set({target:l,node:null}),s.actions.announce(this.sentence());return}}}close(t){let e=this.context.state.open.filter(s=>s!==t);this.context.actions.set({open:e})}point(t,e,s){let{context:n}=this,r=!n.current.square,o=this.pointedSource;if(this.pointedSource=r&&s?t:null,this.pointedSource!==o&&this.shaded(),t===null){n.actions.tip(null,[]),n.actions.point(null);return}let i=s?n.sources:n.targets,{start:l,stop:h}=i.groups[t],p=!s||n.current.square,u=-1;for(let m=l;m<h&&u<0;m++)p&&n.current.holds(m)&&(u=m);let d=this.words(t,s);e?n.actions.tip(e,d):(s?this.sourceText:this.targetText).describe(t,d.join(". ")),n.actions.point(u<0?null:u)}words(t,e){let{context:s}=this,n=s.preview;s.preview=null;let r=(e?s.sources:s.targets).label(t),o=s.targets.label(s.targetGroup),i=[r];if(e){let l=s.incoming(),h=$(l,s.own).findIndex(p=>p.group===t);t===s.own?i.push(`the target; ${x(l[t])} of it is its own`):l[t]?i.push(`${x(l[t])} of ${o}${h>=0?`, number ${h+1}`:""}`):i.push(`nothing of it is in ${o}`)}return s.preview=n,i}update(t){this.context=t;let{current:e,sources:s,targets:n,payload:r}=t,o=!e.square;this.picture.element.hidden=!r.image,this.sourceText.element.hidden=!!r.image&&!o&&s.text.special.every(l=>l===0);let i=!!e.sources.seconds;this.strip.element.hidden=!i,i&&(this.sourceText.element.hidden=!0),this.targetName.hidden=!o,this.sourceName.hidden=!o,this.targetText.element.hidden=!o,this.sourceText.show(s,t),o&&this.targetText.show(n,t),this.shaded(),this.layers.update(t)}pointed(t){this.context=t,this.shaded(),this.layers.update(t)}shaded(){let{context:t}=this,{own:e,sources:s,targets:n,targetGroup:r,current:o}=t,i=t.incoming(),l=C(i,e),h=t.preview===null;this.sourceText.shadeBy(t,i,l,e,h),o.square||this.shadeTargets(r,h),this.picture.show(t,i,l),this.strip.show(t,i,l);let p=$(i,e);h&&this.answer.replaceChildren(...this.sentenceParts()),this.inList.classList.toggle("long",t.state.unit==="segments"||!!t.payload.image),this.fillLegend(l);let u=n.label(r);this.inName.replaceChildren("Where ",c("b",{},u)," comes from");let d=e>=0&&i[e]?[{group:e,value:i[e]}]:[];xe(this.inList,p.slice(0,$t),d,l,b=>s.label(b),t);let m=Array.from(i).reduce((b,v)=>b+Math.abs(v),0),g=p.slice($t).reduce((b,v)=>b+Math.abs(v.value),0),f=[];p.length>$t&&f.push(`${p.length-$t} more sources: ${x(g)}`),!o.complete&&m<.9995&&f.push(`small shares left out of this page: ${x(1-m)}`),this.rest.textContent=f.join(" · "),this.goesTo(u)}shadeTargets(t,e){let{context:s,pointedSource:n}=this,{current:r,targets:o,sources:i}=s,l=n===null?new Float64Array(o.size):r.outgoing(s.choice,o,i,n),h=n===null?t:-1;this.targetText.shadeBy(s,l,C(l,-1),h,e)}goesTo(t){let{context:e}=this,{current:s,targets:n,targetGroup:r}=e,o=s.square&&s.held.length>1;if(this.outName.hidden=this.outList.hidden=!o,!o)return;let i=e.outgoing();this.outName.replaceChildren("Where ",c("b",{},t)," goes");let l=$(i,r).slice(0,ts);this.outName.hidden=this.outList.hidden=l.length===0,xe(this.outList,l,[],C(i,r),h=>n.label(h),e)}fillLegend(t){let{palette:e,current:s}=this.context,n=c("span",{class:"ramp"}),r=s.entry.signed?-5:0,o=Array.from({length:6-r},(i,l)=>E(M(e,(l+r)/5)));n.style.backgroundImage=`linear-gradient(to right, ${o.join(", ")})`,this.legend.replaceChildren(c("span",{class:"outlined"},"target"),c("span",{},s.entry.signed?x(-t):"0 %"),n,c("span",{},x(t)),c("span",{class:"quiet"},"share of the target · point at a word to follow it, click to keep it"))}most(){let{context:t}=this,{current:e}=t,[s,n]=[t.fine(e.targets),t.fine(e.sources)],r=s.of[t.state.target],o=e.incoming(t.choice,s,r,n),i=e.square?r:-1,l=$(o,i).slice(0,3);return{target:s.label(r),top:l.map(h=>[n.label(h.group),h.value]),own:i<0?0:o[i]}}sentenceParts(){let{target:t,top:e,own:s}=this.most(),n=o=>document.createTextNode(o),r=[c("b",{class:"outlined"},t)];return r.push(n(e.length?" took most from ":" took nothing from other tokens")),e.forEach(([o,i],l)=>{l&&r.push(n(l===e.length-1?" and ":", ")),r.push(c("b",{},o),n(` ${x(i)}`))}),s&&r.push(c("span",{class:"quiet"},` · ${x(s)} is its own`)),r}sentence(){let{target:t,top:e}=this.most();return`${T(t)} took most from ${mt(e)}`}paint(t,e,s){let{palette:n,own:r,current:o}=e,i=e.incoming(),l=C(i,r);t.text(0,22,A(t,this.sentence(),17,s),{size:17,fill:n.ink,weight:600});let h=40;return o.square||(h+=this.targetText.paint(t,e,0,h,s,new Float64Array(e.targets.size),1,e.targetGroup)+12),e.payload.image?h+=this.picture.paint(t,e,0,h,s,i,l)+12:h+=this.sourceText.paint(t,e,0,h,s,i,l,r)+12,h+this.layers.paint(t,0,h,s)+8}rows(t){let e=t.incoming(),s=t.targets.label(t.targetGroup);return[["target","source","position","share","rank"],...$(e,-1).map(({group:n,value:r},o)=>[s,t.sources.label(n),String(t.sources.groups[n].start),r.toPrecision(4),String(o+1)])]}};function xe(a,t,e,s,n,r){let o=(p,u,d)=>c("tr",{class:d?"own":null},c("th",{scope:"row",dir:"auto"},u),c("td",{class:"bars"},jt(r,p,s,d?r.palette.quiet:void 0)),c("td",{},x(p))),[i,l]=["token","share"].map(p=>c("th",{scope:"col"},p)),h=t.map(p=>o(p.value,n(p.group),!1));h.push(...e.map(p=>o(p.value,"itself",!0))),a.replaceChildren(c("thead",{class:"unseen"},c("tr",{},i,c("td"),l)),c("tbody",{},...h))}var we={text:"Text",map:"Map",heads:"Heads",flow:"Flow",compare:"Compare"},es=1500,ot=class{constructor(t,e,s,n){this.root=t;this.linked=n;this.bar=c("header",{class:"bar-top"});this.tabs=c("div",{class:"tabs",role:"tablist","aria-label":"Views"});this.panel=c("div",{class:"panel",role:"tabpanel",tabindex:"-1"});this.foot=c("footer",{});this.tip=c("div",{class:"tip","aria-hidden":"true"});this.said=c("div",{class:"unseen","aria-live":"polite"});this.dark=window.matchMedia("(prefers-color-scheme: dark)");this.frame=0;t.classList.add("mixlens");let r=s&&Xt(s,e,o=>this.show(o));t.replaceChildren(...r?[r]:[],this.bar,this.tabs,this.panel,this.foot,this.tip,this.said),this.dark.addEventListener("change",()=>this.update()),new ResizeObserver(()=>this.soon()).observe(t),n&&window.addEventListener("hashchange",()=>{this.context.measured.length&&location.hash.slice(1)!==Ot(this.context.state,this.first)&&(this.context.state=this.sound(Ft(location.hash,this.first)),this.update())}),this.show(e,!0)}show(t,e=!1){ie(t),this.views={text:new Ct,map:new yt,heads:new wt,flow:new bt,compare:new ft};let s=this.context?.state.theme??"auto";this.context=new ct(t,{},{set:n=>this.set(n),point:n=>this.point(n),tip:(n,r)=>this.tipAt(n,r),announce:n=>{this.said.textContent=n}}),this.tabs.hidden=!t.maps.length,this.first=t.maps.length?this.firstState(t,s):{theme:s},t.maps.length?this.context.state=e&&this.linked?this.sound(Ft(location.hash,this.first)):{...this.first}:this.context.state=this.first,this.update()}withoutMaps(){let{payload:t,palette:e}=this.context;this.bar.replaceChildren(c("p",{class:"title"},t.title)),this.foot.replaceChildren(c("p",{},`mixlens ${t.mixlens}`)),this.panel.replaceChildren(t.ranking?be(t.ranking,e):c("p",{class:"quiet"},"Type a text above and press Measure."))}firstState(t,e){let{measured:s}=this.context,n=Math.max(0,t.maps.findIndex(p=>p.measure==="value_zeroing")),r=s[n].sources,o=(r.words??r.labels).length,i=r.segments&&o>es?"segments":r.words?"words":"tokens",l=t.start?.target??s[n].held[0]??0;return{view:j.find(p=>p===t.start?.view)??"text",map:n,other:null,target:l,depth:s[n].defaultDepth,head:null,unit:i,threshold:.02,open:i==="segments"?this.strongest(s[n],l):[],node:null,theme:e}}strongest(t,e){let s=new q(t.sources,"segments"),n=new q(t.targets,"tokens"),r={depth:t.defaultDepth,head:null},o=t.incoming(r,n,e,s);return $(o,-1).slice(0,2).map(i=>i.group)}sound(t){let e={...t},{measured:s}=this.context;s[e.map]||(e.map=this.first.map);let n=s[e.map];return n.depths.includes(e.depth)||(e.depth=n.defaultDepth),e.head!==null&&(typeof e.depth!="number"||!(e.head>=0&&e.head<n.heads))&&(e.head=null),n.holds(e.target)||(e.target=n.holds(this.first.target)?this.first.target:n.held[n.held.length-1]),e.unit==="segments"&&!n.sources.segments&&(e.unit=n.sources.words?"words":"tokens"),e.unit==="words"&&!n.sources.words&&!n.targets.words&&(e.unit="tokens"),e.other!==null&&!s[e.other]&&(e.other=null),e}set(t){let{context:e}=this;if(e.preview=null,e.state=this.sound({...e.state,...t}),this.linked){let s=Ot(e.state,this.first);history.replaceState(null,"",`${location.pathname}${location.search}${s?`#${s}`:""}`)}this.update(),this.tipAt(null,[])}point(t){this.context.preview!==t&&(this.context.preview=t,cancelAnimationFrame(this.frame),this.frame=requestAnimationFrame(()=>this.view.pointed?.(this.context)))}get view(){return this.views[this.context.state.view]}soon(){cancelAnimationFrame(this.frame),this.frame=requestAnimationFrame(()=>this.update())}paint(){let{theme:t}=this.context.state,e=t==="dark"||t==="auto"&&this.dark.matches;this.context.palette=e?Gt:at,this.root.dataset.theme=e?"dark":"light",this.linked&&(document.documentElement.dataset.theme=e?"dark":"light")}update(){if(this.paint(),!this.context.measured.length)return this.withoutMaps();this.choices(),this.tabBar();let{element:t}=this.view;this.panel.firstChild!==t&&this.panel.replaceChildren(t),this.view.update(this.context),this.foot.replaceChildren(...Yt(this.context))}choices(){let{context:t}=this,{state:e,measured:s,current:n}=t,r=[P("Measure",s.map((u,d)=>[String(d),t.name(u)]),String(e.map),u=>this.set({map:Number(u),head:null})),P("Layer",n.depths.map(u=>[String(u),n.depthName(u)]),String(e.depth),u=>this.set({depth:u==="all"||u==="mean"?u:Number(u)}))];n.heads&&typeof e.depth=="number"&&r.push(P("Head",[["","whole layer"],...Array.from({length:n.heads},(u,d)=>[String(d),String(d)])],e.head===null?"":String(e.head),u=>this.set({head:u===""?null:Number(u)})));let{words:o,segments:i}=n.sources,l=[["tokens","Tokens"]];(o||n.targets.words)&&l.unshift(["words","Words"]),i&&l.push(["segments","Segments"]),l.length>1&&r.push(P("By",l,e.unit,u=>this.set({unit:u,node:null})));let h=this.root.getRootNode().activeElement,p=h&&this.bar.contains(h)?[...this.bar.querySelectorAll("select, button, summary")].indexOf(h):-1;this.bar.replaceChildren(...r,c("span",{class:"push"}),this.themeButton(),oe(()=>this.view,this.context,this.linked)),p>=0&&this.bar.querySelectorAll("select, button, summary")[p]?.focus()}themeButton(){let t=this.context.palette.dark;return c("button",{type:"button",class:"plain","aria-label":t?"Light colours":"Dark colours",onclick:()=>this.set({theme:t?"light":"dark"})},t?"☀":"☾")}tabBar(){let{state:t}=this.context;if(!this.tabs.children.length)for(let e of j)this.tabs.append(c("button",{type:"button",role:"tab","data-view":e,onclick:()=>this.set({view:e}),onkeydown:s=>this.tabKey(s)},we[e]));for(let e of this.tabs.children){let s=e.dataset.view===t.view;e.setAttribute("aria-selected",String(s)),e.tabIndex=s?0:-1}this.panel.setAttribute("aria-label",we[t.view])}tabKey(t){let e={ArrowLeft:-1,ArrowRight:1}[t.key];if(!e)return;t.preventDefault();let s=(j.indexOf(this.context.state.view)+e+j.length)%j.length;this.set({view:j[s]}),this.tabs.children[s].focus()}tipAt(t,e){let{tip:s}=this;if(s.classList.toggle("on",!!(t&&e.length)),!t||!e.length)return;s.replaceChildren(...e.map((h,p)=>c(p?"div":"b",{dir:"auto"},h)));let{clientX:n,clientY:r}=t,o=s.offsetWidth,i=s.offsetHeight;s.style.left=`${Math.max(4,Math.min(n+14,window.innerWidth-o-8))}px`;let l=r+18+i<=window.innerHeight;s.style.top=`${l?r+18:r-i-12}px`}};var ye=`html {
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
  margin-bottom: 20px !important;
  max-width: 46em;
}
.answer b {
  font-weight: 650;
  unicode-bidi: isolate;
}
.mixlens h2 b {
  color: var(--ink);
  unicode-bidi: isolate;
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
.side h2:first-child {
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
  margin-left: 0.8em;
  font-size: 0.8em;
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
  table-layout: fixed;
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

@media (max-width: 860px) {
  .mixlens {
    padding: 12px 14px 20px;
  }
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
.fold {
  cursor: pointer;
  color: var(--quiet);
  padding-right: 0.3em;
}
.ranks thead th:first-child {
  text-align: left;
}
`;function Me(a){let t=new CSSStyleSheet;t.replaceSync(ye),a.adoptedStyleSheets=[...a.adoptedStyleSheets,t]}function Ee(a,t){try{t()}catch(e){a.replaceChildren(c("p",{role:"alert"},`This view cannot be shown: ${e.message}`))}}var ke=typeof document>"u"?null:document.getElementById("payload"),_t=typeof document>"u"?null:document.getElementById("view");if(ke&&_t){Me(document);let a=JSON.parse(ke.textContent??"null"),t=location.protocol!=="about:";Ee(_t,()=>new ot(_t,a,a.live?new ut(a.live.api):null,t))}var Wt=class{constructor(t){this.model=t;this.running=0}choices(){return Promise.resolve(this.model.get("choices"))}run(t){let e=++this.running;return new Promise((s,n)=>{let r=()=>{let o=this.model.get("answer");o.number===e&&(this.model.off("change:answer",r),o.payload?s(o.payload):n(new Error(o.error??"The kernel gave no answer.")))};this.model.on("change:answer",r),this.model.set("job",{...t,number:e}),this.model.save_changes()})}cancel(){}};function ns({model:a,el:t}){let e=t.attachShadow({mode:"open"});Me(e);let s=c("div");e.append(s),Ee(s,()=>new ot(s,a.get("payload"),new Wt(a),!1))}return Le(rs);})();
