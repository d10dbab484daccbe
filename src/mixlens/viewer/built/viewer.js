/* mixlens viewer, built from web/ 751c96e486f45cf885c8a36928c71bd2c638207f8718d0b5ebb8bf5b64bc29ea */
"use strict";var mixlensViewer=(()=>{var Tt=Object.defineProperty;var we=Object.getOwnPropertyDescriptor;var ye=Object.getOwnPropertyNames;var ke=Object.prototype.hasOwnProperty;var Me=(l,t)=>{for(var e in t)Tt(l,e,{get:t[e],enumerable:!0})},Ee=(l,t,e,s)=>{if(t&&typeof t=="object"||typeof t=="function")for(let n of ye(t))!ke.call(l,n)&&n!==e&&Tt(l,n,{get:()=>t[n],enumerable:!(s=we(t,n))||s.enumerable});return l};var $e=l=>Ee(Tt({},"__esModule",{value:!0}),l);var Xe={};Me(Xe,{render:()=>Ye});var rt=l=>[Number.parseInt(l.slice(1,3),16),Number.parseInt(l.slice(3,5),16),Number.parseInt(l.slice(5,7),16)],it={dark:!1,paper:"#ffffff",ink:"#16191d",quiet:"#59626d",line:"#dfe3e8",band:"#f4f6f8",plus:["#f6f8fb","#cfe1f4","#9cc4ea","#5f9fdb","#2a74bd","#0b4586"].map(rt),minus:["#fbf8f5","#fbdfc8","#f5b988","#e58b43","#bf5f14","#803604"].map(rt)},_t={dark:!0,paper:"#101316",ink:"#e8ebef",quiet:"#a0a9b4",line:"#2c333b",band:"#191e23",plus:["#181c21","#14324f","#1a517f","#2f7ab8","#62a9e0","#b4daf8"].map(rt),minus:["#1e1b18","#452811","#754015","#ad611f","#e08a40","#fcc797"].map(rt)};function Te(l,t){let e=Math.min(1,Math.max(0,t))*(l.length-1),s=Math.min(Math.floor(e),l.length-2),n=e-s,[r,i]=[l[s],l[s+1]];return[0,1,2].map(o=>Math.round(r[o]+(i[o]-r[o])*n))}function M(l,t){return Te(t<0?l.minus:l.plus,Math.abs(t))}var E=([l,t,e])=>`rgb(${l}, ${t}, ${e})`;function Ae(l){let[t,e,s]=l.map(n=>{let r=n/255;return r<=.04045?r/12.92:((r+.055)/1.055)**2.4});return .2126*t+.7152*e+.0722*s}function Z(l){return Ae(l)>.179?"#000000":"#ffffff"}var Ce={0:"NUL",7:"BEL",8:"BS",9:"TAB",10:"↵",13:"CR",27:"ESC",127:"DEL",160:"NBSP",173:"SHY",1564:"ALM",6158:"MVS",8203:"ZWSP",8204:"ZWNJ",8205:"ZWJ",8206:"LRM",8207:"RLM",8232:"LS",8233:"PS",8234:"LRE",8235:"RLE",8236:"PDF",8237:"LRO",8238:"RLO",8288:"WJ",8294:"LRI",8295:"RLI",8296:"FSI",8297:"PDI",65279:"BOM",65532:"OBJ"},Se=/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u00a0\ufffc]/gu,Wt=/[\p{L}\p{M}\p{Extended_Pictographic}\ufe0f\u{1f3fb}-\u{1f3ff}]/u;function Gt(l){return l.replace(Se,(t,e)=>{let s=t.codePointAt(0);if(s===10)return"↵";if(s===8204||s===8205){let n=[...l.slice(0,e)].pop()??"",r=[...l.slice(e+1)][0]??"";if(Wt.test(n)&&Wt.test(r))return t}return`⟨${Ce[s]??`U+${s.toString(16).toUpperCase().padStart(4,"0")}`}⟩`})}var F=class{constructor(t,e,s=new Set){this.text=t;this.unit=e;this.open=s;this.groups=Le(t,e,s),this.of=new Int32Array(t.labels.length),this.groups.forEach((n,r)=>this.of.fill(r,n.start,n.stop))}get size(){return this.groups.length}label(t){let{start:e,stop:s,segment:n}=this.groups[t],r=n===null?s:Math.min(s,e+6),i="";for(let o=e;o<r;o++)i+=(o>e?this.text.gaps[o].replace(/\s+/g," "):"")+this.text.shown[o];return Gt(i)+(r<s?" …":"")}special(t){let{start:e,stop:s}=this.groups[t];return this.text.special.slice(e,s).every(n=>n===1)}};function Le(l,t,e){let s=l.labels.length,n=(i,o)=>Array.from({length:o-i},(a,c)=>({start:i+c,stop:i+c+1,segment:null})),r=(i,o)=>l.words?l.words.filter(([a,c])=>a<o&&c>i).map(([a,c])=>({start:Math.max(a,i),stop:Math.min(c,o),segment:null})):n(i,o);return t==="tokens"?n(0,s):t==="words"||!l.segments?r(0,s):l.segments.flatMap(([i,o],a)=>e.has(a)?r(i,o):[{start:i,stop:o,segment:a}])}function Ut(l,t){return l.segments?l.segments.findIndex(([e,s])=>e<=t&&t<s):-1}function ze(l){let t=atob(l),e=new Uint8Array(t.length);for(let s=0;s<t.length;s++)e[s]=t.charCodeAt(s);return e}var Pe=(()=>{let l=new Float32Array(65536);for(let t=0;t<65536;t++){let e=t&32768?-1:1,s=t>>10&31,n=t&1023;s===0?l[t]=e*n*2**-24:s===31?l[t]=n?Number.NaN:e*Number.POSITIVE_INFINITY:l[t]=e*(1+n/1024)*2**(s-15)}return l})();function B(l){let t=ze(l.data).buffer;switch(l.dtype){case"float16":{let e=new Uint16Array(t),s=new Float32Array(e.length);for(let n=0;n<e.length;n++)s[n]=Pe[e[n]];return s}case"float32":return new Float32Array(t);case"uint16":return new Uint16Array(t);case"uint32":return new Uint32Array(t);default:throw new Error(`Arrays of ${l.dtype} are not known here.`)}}function ot(l){return l.kind==="dense"?new At(l.shares):new Ct(l)}var At=class{constructor(t){this.complete=!0;let e=t.shape;this.sources=e[e.length-1],this.targets=e[e.length-2],this.layers=e.slice(0,-2).reduce((s,n)=>s*n,1),this.values=B(t)}eachOfRow(t,e,s){let n=(t*this.targets+e)*this.sources;for(let r=0;r<this.sources;r++){let i=this.values[n+r];i!==0&&s(r,i)}}eachOfColumn(t,e,s){let n=t*this.targets*this.sources+e;for(let r=0;r<this.targets;r++){let i=this.values[n+r*this.sources];i!==0&&s(r,i)}}},Ct=class{constructor(t){this.complete=!1;this.columns=new Map;[this.layers,this.targets,this.sources]=t.shape,this.starts=B(t.starts),this.indices=B(t.indices),this.values=B(t.values)}eachOfRow(t,e,s){let n=t*this.targets+e;for(let r=this.starts[n];r<this.starts[n+1];r++)s(this.indices[r],this.values[r])}eachOfColumn(t,e,s){let{starts:n,rows:r,values:i}=this.columnsOf(t);for(let o=n[e];o<n[e+1];o++)s(r[o],i[o])}columnsOf(t){let e=this.columns.get(t);if(e)return e;let s=new Uint32Array(this.sources+1);for(let a=0;a<this.targets;a++)this.eachOfRow(t,a,c=>s[c+1]++);for(let a=0;a<this.sources;a++)s[a+1]+=s[a];let n=s.slice(),r=new Uint32Array(s[this.sources]),i=new Float32Array(r.length);for(let a=0;a<this.targets;a++)this.eachOfRow(t,a,(c,p)=>{let u=n[c]++;r[u]=a,i[u]=p});let o={starts:s,rows:r,values:i};return this.columns.set(t,o),o}};var at=class{constructor(t,e){this.entry=e;this.norms=new WeakMap;this.targets=t.texts[e.targets],this.sources=t.texts[e.sources],this.square=e.targets===e.sources,this.held=e.target_positions??this.targets.labels.map((n,r)=>r),this.rowOf=new Map(this.held.map((n,r)=>[n,r])),this.layers=e.scores&&ot(e.scores),this.joined=e.joined&&ot(e.joined.scores),this.perHead=e.heads?ot(e.heads):null,this.heads=this.perHead?this.perHead.layers/e.layers.length:0;let s=n=>n?B(n):null;this.totals=s(e.totals),this.joinedTotals=s(e.joined?.totals)}get complete(){return(this.layers?.complete??!0)&&(this.joined?.complete??!0)}get whole(){return this.square&&this.entry.target_positions===null&&this.layers!==null}get depths(){let t=this.entry.layers.map((n,r)=>r),e=this.entry.joined?.how==="mean",s=t.length>1&&!this.entry.reaches_input&&!e?["mean"]:[];return[...this.joined?["all"]:[],...s,...t]}get defaultDepth(){if(this.joined)return"all";let t=this.entry.layers.length-1;return this.entry.reaches_input||t===0?t:"mean"}depthName(t){if(t==="mean")return"Mean of layers";if(t==="all")return`All layers (${this.entry.joined.how.replace(/\(.*/,"")})`;let e=(this.entry.provenance.steps??[]).find(n=>/^(rollout|flow)/.test(n)),s=`Layer ${this.entry.layers[t]}`;return e?`${s} (${e.replace(/\(.*/,"")} up to it)`:s}holds(t){return this.rowOf.has(t)}planes({depth:t,head:e}){if(t==="all"&&this.joined)return[{shares:this.joined,layer:0,totals:this.joinedTotals}];if(t==="mean"||t==="all")return this.entry.layers.flatMap((r,i)=>this.planes({depth:i,head:e}));if(e!==null&&this.perHead)return[{shares:this.perHead,layer:t*this.heads+e,totals:null}];if(!this.layers)return[];let s=this.held.length,n=this.totals?.subarray(t*s,(t+1)*s)??null;return[{shares:this.layers,layer:t,totals:n}]}rows(t,e){let{start:s,stop:n}=t.groups[e],r=[];for(let i=s;i<n;i++){let o=this.rowOf.get(i);o!==void 0&&r.push(o)}return r}incoming(t,e,s,n){let r=new Float64Array(n.size),i=this.planes(t),o=this.rows(e,s);for(let a of i){let c=i.length>1?new Float64Array(n.size):r,p=this.accumulate(a,o,n,c),u=p>0?1/p/i.length:0;for(let d=0;d<c.length;d++)c===r?r[d]*=u:r[d]+=c[d]*u}return r}accumulate(t,e,s,n){let r=0;for(let o of e){let a=t.totals?t.totals[o]:1,c=0;t.shares.eachOfRow(t.layer,o,(p,u)=>{n[s.of[p]]+=u*a,c+=Math.abs(u)}),t.shares.complete||(r+=Math.max(0,1-c)*a)}let i=r;for(let o of n)i+=Math.abs(o);return i}outgoing(t,e,s,n){let r=new Float64Array(e.size),i=this.planes(t),{start:o,stop:a}=s.groups[n];for(let c of i){let p=this.normsOf(c,e,s);for(let u=o;u<a;u++)c.shares.eachOfColumn(c.layer,u,(d,m)=>{let g=e.of[this.held[d]],f=p[g],b=c.totals?c.totals[d]:1;f>0&&(r[g]+=m*b/f/i.length)})}return r}normsOf(t,e,s){let n=this.norms.get(e)??new Map;this.norms.set(e,n);let r=`${t.shares===this.perHead} ${t.shares===this.joined} ${t.layer}`,i=n.get(r)??new Float64Array(e.size);if(n.has(r))return i;for(let o=0;o<e.size;o++){let a=this.rows(e,o);if(this.entry.signed)i[o]=this.accumulate(t,a,s,new Float64Array(s.size));else for(let c of a)i[o]+=t.totals?t.totals[c]:1}return n.set(r,i),i}eachTransition(t,e,s){let{residual:n=0,normalize:r}=this.entry.joined,i=this.entry.signed||!this.totals?1:this.totals[t*this.held.length+e],o=n;r!==!1&&this.layers.eachOfRow(t,e,(c,p)=>{o+=(1-n)*Math.abs(p)*i});let a=r===!1?1:o>0?1/o:0;n>0&&s(e,n*a),this.layers.eachOfRow(t,e,(c,p)=>s(c,(1-n)*Math.abs(p)*i*a))}total({depth:t,head:e},s){if(e!==null||typeof t!="number"||!this.totals)return null;let n=this.rowOf.get(s);return n===void 0?null:this.totals[t*this.held.length+n]}};function A(l,t){let e=[];for(let s=0;s<l.length;s++)s!==t&&l[s]!==0&&e.push({group:s,value:l[s]});return e.sort((s,n)=>Math.abs(n.value)-Math.abs(s.value)||s.group-n.group)}function C(l,t){let e=0;for(let s=0;s<l.length;s++)s!==t&&(e=Math.max(e,Math.abs(l[s])));return e}var lt=class{constructor(t,e,s){this.payload=t;this.state=e;this.actions=s;this.preview=null;this.groupings=new Map;this.measured=t.maps.map(n=>new at(t,n))}get current(){return this.measured[this.state.map]}get choice(){return{depth:this.state.depth,head:this.state.head}}get target(){return this.preview??this.state.target}grouping(t){let e=this.state.unit==="segments"?this.openSegments(t):[],s=`${this.payload.texts.indexOf(t)} ${this.state.unit} ${e.join(",")}`,n=this.groupings.get(s);return n||(this.groupings.size>12&&this.groupings.clear(),n=new F(t,this.state.unit,new Set(e)),this.groupings.set(s,n)),n}fine(t){let e=`${this.payload.texts.indexOf(t)} fine`,s=this.groupings.get(e)??new F(t,"words");return this.groupings.set(e,s),s}openSegments(t){let e=t===this.current.targets?Ut(t,this.state.target):-1,s=new Set(this.state.open);return e>=0&&s.add(e),[...s].sort((n,r)=>n-r)}get targets(){return this.grouping(this.current.targets)}get sources(){return this.grouping(this.current.sources)}get targetGroup(){return this.targets.of[this.target]??0}get own(){return this.current.square?this.targetGroup:-1}incoming(t=this.current,e=this.choice){return t.incoming(e,this.targets,this.targetGroup,this.sources)}outgoing(){let{current:t}=this;return t.outgoing(this.choice,this.targets,this.sources,this.targetGroup)}depthFor(t){return t.depths.includes(this.state.depth)?this.state.depth:t.defaultDepth}name(t){let{measure:e,provenance:s}=t.entry,n=s.site;return new Set(this.payload.maps.map(i=>i.provenance.site)).size>1&&n?`${e} · ${n}`:e}};function h(l,t={},...e){let s=document.createElement(l);for(let[n,r]of Object.entries(t))r==null||r===!1||(n.startsWith("on")?s.addEventListener(n.slice(2),r):n==="class"?s.className=String(r):s.setAttribute(n,r===!0?"":String(r)));return s.append(...e.filter(n=>n!=null&&n!==!1)),s}function x(l){let t=Math.abs(l*100);if(t>0&&t<.005)return"under 0.01 %";let e=t>=9.95?0:t>=.095?1:2;return`${l<0?"−":""}${t.toFixed(e)} %`}var $=l=>`⁨${l}⁩`;function P(l,t,e,s){let n=h("select",{onchange:r=>s(r.target.value)});for(let[r,i]of t)n.append(h("option",{value:r,selected:r===e},i));return h("label",{class:"field"},h("span",{},l),n)}function H(l,t){let e=h("details",{class:"behind"},h("summary",{},`${l} as a table`));return e.addEventListener("toggle",()=>{e.open&&Vt(e,t())}),e}function N(l,t){l.open&&Vt(l,t())}var Bt=400;function Vt(l,[t,...e]){l.querySelector("div")?.remove();let s=h("table",{},h("thead",{},h("tr",{},...(t??[]).map(r=>h("th",{scope:"col"},r)))),h("tbody",{},...e.slice(0,Bt).map(r=>h("tr",{},...r.map((i,o)=>o?h("td",{},i):h("th",{scope:"row"},i)))))),n=e.length-Bt;l.append(h("div",{class:"wide",tabindex:"0",role:"region","aria-label":"Table"},s,n>0&&h("p",{},`${n} more rows are in the CSV file.`)))}var Kt='system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif',Jt=(l,t=400)=>`${t} ${l}px ${Kt}`,W=class{constructor(t){this.pen=t}rect(t,e,s,n,r,i,o=1,a=0){let{pen:c}=this;c.beginPath(),a?c.roundRect(t,e,s,n,a):c.rect(t,e,s,n),r&&(c.fillStyle=r,c.fill()),i&&(c.strokeStyle=i,c.lineWidth=o,c.stroke())}text(t,e,s,n){let{pen:r}=this;r.save(),r.font=Jt(n.size,n.weight),r.fillStyle=n.fill,r.textAlign=n.align??"left",r.direction=n.rtl?"rtl":"ltr",r.translate(t,e),n.rotate&&r.rotate(n.rotate*Math.PI/180),r.fillText(s,0,0),r.restore()}curve(t,e,s,n,r,i,o){let{pen:a}=this,c=(e+n)/2;a.save(),a.globalAlpha=o,a.strokeStyle=i,a.lineWidth=r,a.lineCap="round",a.beginPath(),a.moveTo(t,e),a.bezierCurveTo(t,c,s,c,s,n),a.stroke(),a.restore()}circle(t,e,s,n,r){let{pen:i}=this;i.beginPath(),i.arc(t,e,s,0,2*Math.PI),i.fillStyle=n,i.fill(),r&&(i.strokeStyle=r,i.lineWidth=2,i.stroke())}image(t,e,s,n,r,i=!1){this.pen.imageSmoothingEnabled=i,this.pen.drawImage(t,e,s,n,r)}width(t,e,s){return Yt(t,e,s)}},St=null;function Yt(l,t,e){return St??=document.createElement("canvas").getContext("2d"),St.font=Jt(t,e),St.measureText(l).width}var j=l=>Math.round(l*100)/100,Q=class{constructor(){this.parts=[]}put(t,e,s=""){let n=Object.entries(e).filter(([,r])=>r!==void 0).map(([r,i])=>`${r}="${Lt(String(typeof i=="number"?j(i):i))}"`).join(" ");this.parts.push(`<${t} ${n}${s?`>${s}</${t}>`:"/>"}`)}rect(t,e,s,n,r,i,o=1,a=0){this.put("rect",{x:t,y:e,width:s,height:n,rx:a||void 0,fill:r??"none",stroke:i,"stroke-width":i&&o})}text(t,e,s,n){let r={left:"start",center:"middle",right:"end"}[n.align??"left"];this.put("text",{x:n.rotate?0:t,y:n.rotate?0:e,transform:n.rotate?`translate(${j(t)} ${j(e)}) rotate(${n.rotate})`:void 0,"font-size":n.size,"font-weight":n.weight,fill:n.fill,direction:n.rtl?"rtl":void 0,"text-anchor":r==="start"?void 0:r},Lt(s))}curve(t,e,s,n,r,i,o){let[a,c,p,u,d]=[t,e,s,n,(e+n)/2].map(j);this.put("path",{d:`M${a} ${c}C${a} ${d} ${p} ${d} ${p} ${u}`,fill:"none",stroke:i,"stroke-width":r,"stroke-opacity":o,"stroke-linecap":"round"})}circle(t,e,s,n,r){this.put("circle",{cx:t,cy:e,r:s,fill:n,stroke:r,"stroke-width":r&&2})}image(t,e,s,n,r){let i=t instanceof HTMLCanvasElement?t.toDataURL("image/png"):t.src;this.put("image",{x:e,y:s,width:n,height:r,href:i,preserveAspectRatio:"none",style:"image-rendering:pixelated"})}width(t,e,s){return Yt(t,e,s)}file(t,e,s){return`<svg xmlns="http://www.w3.org/2000/svg" width="${j(t)}" height="${j(e)}" viewBox="0 0 ${j(t)} ${j(e)}" font-family="${Lt(Kt)}"><rect width="100%" height="100%" fill="${s}"/>${this.parts.join("")}</svg>
`}};function Lt(l){return l.replace(/[&<>"]/g,t=>({"&":"&amp;","<":"&lt;",">":"&gt;",'"':"&quot;"})[t])}function L(l,t,e,s){if(l.width(t,e)<=s)return t;let n=[...t];for(;n.length>1&&l.width(`${n.join("")}…`,e)>s;)n.pop();return`${n.join("")}…`}function S(l,t,e){let s=Math.max(1,window.devicePixelRatio||1);l.width=Math.max(1,Math.round(t*s)),l.height=Math.max(1,Math.round(e*s)),l.style.width=`${t}px`,l.style.height=`${e}px`;let n=l.getContext("2d");return n.setTransform(s,0,0,s,0,0),n.clearRect(0,0,t,e),new W(n)}var ht=1e3,tt=28;function He(l){let{current:t,state:e}=l,{provenance:s}=t.entry,n=s.name??s.model??"",r=e.head===null?"":`, head ${e.head}`;return[`${l.name(t)}, ${t.depthName(e.depth).toLowerCase()}${r}`,n,`mixlens ${l.payload.mixlens}`].filter(Boolean).join(" · ")}var zt=class{constructor(t,e){this.inner=t;this.by=e;this.rect=(t,e,...s)=>this.inner.rect(t+this.by,e+this.by,...s);this.text=(t,e,...s)=>this.inner.text(t+this.by,e+this.by,...s);this.circle=(t,e,...s)=>this.inner.circle(t+this.by,e+this.by,...s);this.curve=(t,e,s,n,...r)=>this.inner.curve(t+this.by,e+this.by,s+this.by,n+this.by,...r);this.image=(t,e,s,...n)=>this.inner.image(t,e+this.by,s+this.by,...n);this.width=(...t)=>this.inner.width(...t)}};function Pt(l,t,e){let s=ht-2*tt,n=l.paint(new zt(e,tt),t,s);return e.text(tt,tt+n+22,He(t),{size:12,fill:t.palette.quiet}),n+2*tt+22}function Xt(l,t){let e=new Q,s=Pt(l,t,e);return e.file(ht,s,t.palette.paper)}function Ht(l,t,e=2){let s=Pt(l,t,new Q),n=document.createElement("canvas");n.width=ht*e,n.height=Math.round(s*e);let r=n.getContext("2d");return r.scale(e,e),r.fillStyle=t.palette.paper,r.fillRect(0,0,ht,s),Pt(l,t,new W(r)),new Promise((i,o)=>n.toBlob(a=>a?i(a):o(new Error("The picture is too large for this browser.")),"image/png"))}function Zt(l){let t=e=>{let s=/^[=@+\t\r]/.test(e)||/^-(?![\d.])/.test(e)?`'${e}`:e;return/[",\n\r]/.test(s)?`"${s.replaceAll('"','""')}"`:s};return`${l.map(e=>e.map(t).join(",")).join(`\r
`)}\r
`}function Qt(l,t){let[e,...s]=l.rows(t),{current:n,state:r}=t;return`${JSON.stringify({state:r,depth:n.depthName(r.depth),provenance:n.entry.provenance,columns:e,rows:s},null,2)}
`}function et(l,t,e){let s=typeof t=="string"?new Blob([t],{type:e}):t,n=document.createElement("a");n.href=URL.createObjectURL(s),n.download=l,n.click(),setTimeout(()=>URL.revokeObjectURL(n.href),1e4)}var Ne=l=>new Promise(t=>setTimeout(t,l)),ct=class{constructor(t){this.api=t;this.job=null}async ask(t,e={}){let s=await fetch(this.api+t,e);if(s.status===204)return;let n=await s.json().catch(()=>null);if(!s.ok)throw new Error(typeof n?.detail=="string"?n.detail:`The server answered ${s.status}.`);return n}choices(){return this.ask("")}async run(t,e){let{id:s}=await this.ask("/jobs",{method:"POST",headers:{"Content-Type":"application/json"},body:JSON.stringify(t)});this.job=s;for(let n=80;;n=Math.min(1e3,n*1.3)){let r=await this.ask(`/jobs/${s}`);if(r.state==="done")break;if(r.state==="failed"||r.state==="cancelled")throw new Error(r.message||r.state);e(r.progress,r.message||r.state),await Ne(n)}return this.job=null,this.ask(`/jobs/${s}/payload`)}cancel(){this.job&&this.ask(`/jobs/${this.job}`,{method:"DELETE"}).catch(()=>{})}},Re=["value_zeroing","attention","alti"];function te(l,t,e){let s=h("textarea",{rows:"2","aria-label":"Text",spellcheck:"false"});s.value=t.texts[0]?Oe(t):"";let n=h("textarea",{rows:"2","aria-label":"Target text: what the decoder is given",placeholder:"What the decoder is given",spellcheck:"false",hidden:!0}),r=h("span",{class:"live-fields"}),i=h("fieldset",{class:"checks"},h("legend",{},"Measures")),o=h("input",{type:"checkbox"}),a=h("button",{type:"submit",class:"primary"},"Measure"),c=h("button",{type:"button",hidden:!0,onclick:()=>l.cancel()},"Cancel"),p=h("progress",{max:"1",hidden:!0,"aria-label":"Progress"}),u=h("p",{class:"quiet",role:"status"}),d="",m=h("form",{class:"live",onsubmit:f=>{f.preventDefault(),g()}},s,n,h("div",{class:"live-line"},r,h("details",{class:"behind"},h("summary",{},"Measures"),i,h("label",{},o," single heads too")),a,c,p,u));async function g(){let f=[...i.querySelectorAll("input:checked")].map(b=>b.value);a.disabled=!0,p.hidden=c.hidden=!1,u.textContent="",u.classList.remove("wrong");try{let b={model:d,text:s.value,target_text:n.hidden?null:n.value,measures:f,heads:o.checked};e(await l.run(b,(v,w)=>{p.value=v,u.textContent=w})),u.textContent=""}catch(b){u.textContent=b.message,u.classList.add("wrong")}finally{a.disabled=!1,p.hidden=c.hidden=!0}}return l.choices().then(f=>{d=f.models[0]?.name??"";let b=()=>{n.hidden=!f.models.find(w=>w.name===d)?.pairs};b(),f.models.length>1&&r.append(P("Model",f.models.map(({name:w})=>[w,w]),d,w=>{d=w,b()}));let v=new Set(t.maps.map(w=>w.measure));for(let{name:w,summary:k}of f.measures){let T=v.size?v.has(w):Re.includes(w);i.append(h("label",{title:k??""},h("input",{type:"checkbox",value:w,checked:T}),` ${w}`))}},f=>{u.textContent=f.message,u.classList.add("wrong")}),m}function Oe(l){let{shown:t,gaps:e,special:s,labels:n}=l.texts[0];return t.map((r,i)=>s[i]&&!/mask/i.test(n[i])?"":e[i]+r).join("").trim()}function ee(l){if(l?.format!=="mixlens")throw new Error("This is not a mixlens payload.");if(l.version!==1)throw new Error(`This viewer shows payloads of version 1, not ${l.version}.`);return l}var q=["text","map","heads","flow","compare"];function Nt(l,t){let e=new URLSearchParams,s=(n,r,i)=>{JSON.stringify(r)!==JSON.stringify(i)&&e.set(n,String(r??""))};return s("view",l.view,t.view),s("measure",l.map,t.map),s("with",l.other,t.other),s("target",l.target,t.target),s("layer",l.depth,t.depth),s("head",l.head,t.head),s("unit",l.unit,t.unit),s("from",l.threshold,t.threshold),s("open",l.open,t.open),s("node",l.node,t.node),s("theme",l.theme,t.theme),e.toString()}function Rt(l,t){let e=new URLSearchParams(l.replace(/^#/,"")),s=(c,p)=>{let u=e.get(c),d=Number(u);return u!==null&&u!==""&&Number.isFinite(d)?d:p},n=(c,p)=>e.get(c)===""?null:e.has(c)?s(c,-1):p,r=(c,p,u)=>p.find(d=>d===e.get(c))??u,i=c=>(e.get(c)??"").split(",").filter(Boolean).map(Number),o=e.get("layer"),a=i("node");return{view:r("view",q,t.view),map:s("measure",t.map),other:n("with",t.other),target:s("target",t.target),depth:o==="all"||o==="mean"?o:o?Number(o):t.depth,head:n("head",t.head),unit:r("unit",["tokens","words","segments"],t.unit),threshold:s("from",t.threshold),open:e.has("open")?i("open"):t.open,node:a.length===2?[a[0],a[1]]:null,theme:r("theme",["auto","light","dark"],t.theme)}}function Ot(l){let t=Array.from({length:l.length},(s,n)=>n).sort((s,n)=>Math.abs(l[n])-Math.abs(l[s])),e=new Float64Array(l.length);for(let s=0;s<t.length;){let n=s;for(;n<t.length&&Math.abs(l[t[n]])===Math.abs(l[t[s]]);)n++;for(let r=s;r<n;r++)e[t[r]]=(s+1+n)/2;s=n}return e}function ut(l,t){let e=Ot(l),s=Ot(t),n=(e.length+1)/2,r=0,i=0,o=0;for(let a=0;a<e.length;a++)r+=(e[a]-n)*(s[a]-n),i+=(e[a]-n)**2,o+=(s[a]-n)**2;return i&&o?r/Math.sqrt(i*o):Number.NaN}function V(l,t){return Array.from(l).filter((e,s)=>s!==t)}function Ft(l,t){let e=Array.from(l[0]??[],(r,i)=>i).filter(r=>r!==t),s=l.map(r=>Ot(e.map(i=>r[i])));return e.map((r,i)=>{let o=l.map(u=>Math.abs(u[r])),a=o.indexOf(Math.max(...o)),c=o.indexOf(Math.min(...o)),p=o[a]-o[c];return{group:r,high:a,low:c,highRank:s[a][i],lowRank:s[c][i],weight:p}}).sort((r,i)=>i.weight-r.weight)}var ne=/[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;function se(l){for(let t of l){let e=/\p{L}/u.exec(t.replace(/^[[<].*[\]>]$/,""));if(e)return ne.test(e[0])}return!1}var G=class{constructor(t,e){this.handlers=e;this.grouping=null;this.items=[];this.shades=[];this.palette=null;this.marked=-1;this.inSight=null;this.element=h("div",{class:"reading",role:"listbox","aria-label":t,onclick:s=>this.at(s,n=>this.handlers.choose(n)),onmousemove:s=>this.over(s),onmouseleave:s=>this.handlers.point(null,s),onkeydown:s=>this.key(s),onfocusin:s=>this.at(s,n=>this.handlers.point(n,null)),onfocusout:()=>this.handlers.point(null,null)})}at(t,e){let s=t.target.closest("[data-fold]");s&&t.type==="click"&&this.handlers.close?.(Number(s.dataset.fold));let n=t.target.closest("[data-group]");n&&e(Number(n.dataset.group))}over(t){let e=t.target.closest("[data-group]"),s=e?Number(e.dataset.group):null;this.handlers.point(s,t)}key(t){let e=this.items.indexOf(t.target);if(e<0)return;let s=this.element.matches(":dir(rtl)")?"ArrowLeft":"ArrowRight",n=s==="ArrowRight"?"ArrowLeft":"ArrowRight",r={[s]:e+1,[n]:e-1,ArrowDown:e+1,ArrowUp:e-1,Home:0,End:this.items.length-1};if(t.key==="Enter"||t.key===" ")this.handlers.choose(e);else if(t.key in r){let i=Math.max(0,Math.min(this.items.length-1,r[t.key]));this.focus(i)}else return;t.preventDefault()}focus(t){for(let e of this.items)e.tabIndex===0&&(e.tabIndex=-1);this.items[t].tabIndex=0,this.items[t].focus()}show(t,e){t!==this.grouping&&(this.build(t),this.palette=null),e.palette!==this.palette&&(this.shades=new Array(t.size).fill(Number.NaN),this.palette=e.palette)}build(t){let e=this.items.indexOf(this.element.getRootNode().activeElement);this.grouping=t,this.marked=-1;let{text:s}=t,n=[],r=new Map;if(t.unit==="segments")for(let a of t.open)r.set(s.segments[a][0],a);this.items=t.groups.map((a,c)=>{let p=s.gaps[a.start],u=r.get(a.start);u!==void 0&&n.push(h("span",{class:"fold","data-fold":u,"aria-hidden":"true"},"▾")),p.split(`
`).forEach((g,f)=>{f&&n.push(h("br")),g&&n.push(document.createTextNode(g.replace(/\s+/g," ")))});let d=h("span",{class:`token${t.special(c)&&!/mask/i.test(s.labels[a.start])?" special":""}${a.segment===null?"":" segment"}`,role:"option",dir:"auto",tabindex:"-1","aria-selected":"false","data-group":c}),m=t.label(c);return d.append(m),a.segment!==null&&d.append(h("small",{},`${a.stop-a.start} tokens`)),n.push(d),m.endsWith("↵")&&n.push(h("br")),d}),this.element.replaceChildren(...n),this.element.dir=se(s.shown)?"rtl":"ltr";let i=t.size;this.element.dataset.size=i<=40?"large":i<=150?"middle":i<=700?"small":"tiny";let o=this.items[Math.max(0,e)]??this.items[0];o&&(o.tabIndex=0),e>=0&&o?.focus()}shadeBy(t,e,s,n,r){this.items.forEach((o,a)=>{let c=s>0&&a!==n?Math.round(e[a]/s*64)/64:0;if(this.shades[a]===c)return;this.shades[a]=c;let p=M(t.palette,c);o.style.backgroundColor=c===0?"":E(p),o.style.color=c===0?"":Z(p)}),r&&n>=0&&this.inSight!==this.items[n]&&this.reveal(n),this.marked>=0&&this.items[this.marked]?.classList.remove("target","pointed"),this.marked=n;let i=this.items[n];if(i?.classList.add("target"),i?.classList.toggle("pointed",!r),r){let o=this.element.getRootNode().activeElement,a=o&&this.element.contains(o);this.items.forEach((c,p)=>{let u=String(p===n);c.getAttribute("aria-selected")!==u&&c.setAttribute("aria-selected",u),!a&&c.tabIndex===0!=(p===Math.max(0,n))&&(c.tabIndex=p===Math.max(0,n)?0:-1)})}}reveal(t){let e=this.items[t];this.inSight=e;let{element:s}=this,n=e.offsetTop-s.offsetTop,r=n<s.scrollTop,i=n+e.offsetHeight>s.scrollTop+s.clientHeight;(r||i)&&(s.scrollTop=n-s.clientHeight/2)}describe(t,e){this.items[t]?.setAttribute("aria-label",e)}paint(t,e,s,n,r,i,o,a){let c=this.grouping,{palette:p}=e,u=c.size<=40?22:c.size<=150?17:13,d=u*1.8,m=c.groups.map((v,w)=>L(t,c.label(w),u,r-12)),g=se(c.text.shown),f=0,b=n+d*.8;return m.forEach((v,w)=>{let k=c.text.gaps[c.groups[w].start],T=t.width(v,u)+8;f>0&&(k.includes(`
`)||f+T>r)?(f=0,b+=d):f>0&&k&&(f+=u*.16);let R=o>0&&w!==a?i[w]/o:0,O=M(p,R),_=g?s+r-f-T:s+f,$t=w===a?p.ink:void 0;t.rect(_,b-u*1.05,T,u*1.45,R?E(O):null,$t,2,5);let xe=R?Z(O):c.special(w)&&w!==a?p.quiet:p.ink;t.text(_+T/2,b,v,{size:u,fill:xe,align:"center",rtl:ne.test(v)}),f+=T}),b+d*.5-n}};function re(l){let t=l.map(([s,n])=>`${$(s)} ${x(n)}`),e=t.pop()??"nothing";return t.length?`${t.join(", ")} and ${e}`:e}var U=190,K=22,pt=class{constructor(){this.headline=h("h1",{class:"answer"});this.choices=h("div",{class:"pair-choices"});this.names=[h("h2",{}),h("h2",{})];this.tops=[h("p",{class:"quiet"}),h("p",{class:"quiet"})];this.disputed=h("table",{class:"disputes"});this.matrix=h("div",{class:"wide matrix",tabindex:"0",role:"region","aria-label":"Agreement of measures"});this.leftOut=h("details",{class:"behind"});this.rowsShown=[];this.cell=10;let t=()=>new G("The text: choose a target",{choose:s=>this.choose(s),point:(s,n)=>this.point(s,n)});this.readings=[t(),t()],this.canvas=h("canvas",{role:"img",tabindex:"0",onmousemove:s=>this.over(s),onmouseleave:()=>this.context.actions.tip(null,[]),onclick:s=>this.pick(Math.floor(s.offsetY/K))}),this.table=H("Measures",()=>this.rows());let e=s=>h("section",{class:"pair-side"},this.names[s],this.readings[s].element,this.tops[s]);this.element=h("div",{class:"compare-view"},this.headline,this.choices,h("div",{class:"pair"},e(0),e(1)),h("h2",{},"What they dispute"),this.disputed,h("h2",{},"Every measure, this target"),this.canvas,this.table,h("h2",{},"Rank agreement"),this.matrix,this.leftOut)}choose(t){let{start:e,stop:s}=this.context.sources.groups[t];if(this.context.current.square){for(let n=e;n<s;n++)if(this.context.current.holds(n))return this.context.actions.set({target:n,node:null})}}point(t,e){if(t===null||!e)return this.context.actions.tip(null,[]);let s=this.context.sources.label(t);this.context.actions.tip(e,[s,...this.pair().map(n=>`${this.context.name(n.measured)}: ${x(n.values[t])}`)])}comparable(){let{measured:t,current:e,state:s}=this.context;return t.map((n,r)=>r).filter(n=>t[n].targets===e.targets&&t[n].sources===e.sources&&t[n].holds(s.target))}pair(){let{state:t,measured:e}=this.context;return[t.map,t.other??t.map].map(s=>this.rowsShown.find(n=>n.measured===e[s])).filter(Boolean)}update(t){this.context=t;let e=this.comparable(),{state:s,measured:n}=t;if(e.length<2){this.refuse();return}this.element.classList.remove("alone"),this.rowsShown=e.map(i=>({measured:n[i],values:t.incoming(n[i],{depth:t.depthFor(n[i]),head:null})})),(s.other===null||s.other===s.map||!e.includes(s.other))&&(s.other=this.farthest(e));let r=e.map(i=>[String(i),t.name(n[i])]);this.choices.replaceChildren(P("Compare",r,String(s.map),i=>t.actions.set({map:Number(i),head:null})),P("with",r.filter(([i])=>Number(i)!==s.map),String(s.other),i=>t.actions.set({other:Number(i)}))),this.sides(),this.headlines(),this.disputes(),this.draw(),this.agreements(),this.fillLeftOut(),N(this.table,()=>this.rows())}refuse(){this.element.classList.add("alone"),this.rowsShown=[];let{measure:t}=this.context.current.entry;this.headline.textContent=`Only ${t} holds this target here.`,this.choices.replaceChildren(h("p",{class:"quiet"},"Give the page several measures of the same text to see where they disagree: maps.to_html(path, others) or mixlens compare … --html out.html."))}farthest(t){let{measured:e,state:s,own:n}=this.context,r=this.rowsShown.find(p=>p.measured===e[s.map]),i=t.filter(p=>p!==s.map),o=i.filter(p=>e[p].entry.layers.length>0),a=(o.length?o:i).filter(p=>e[p].entry.measure!=="random"),c=p=>{let u=this.rowsShown.find(m=>m.measured===e[p]),d=ut(V(r.values,n),V(u.values,n));return Number.isNaN(d)?2:d};return(a.length?a:i).reduce((p,u)=>c(u)<c(p)?u:p)}sides(){let{context:t}=this;this.pair().forEach(({measured:e,values:s},n)=>{let r=C(s,t.own);this.readings[n].show(t.sources,t),this.readings[n].shadeBy(t,s,r,t.own,!0),this.names[n].textContent=t.name(e);let i=A(s,t.own).slice(0,3);this.tops[n].textContent=`${e.depthName(t.depthFor(e))}: ${i.map(o=>`${$(t.sources.label(o.group))} ${x(o.value)}`).join(", ")}`})}headlines(){let{context:t}=this,e=this.pair(),s=e.map(a=>a.values),n=ut(V(s[0],t.own),V(s[1],t.own)),r=Ft(s,t.own)[0],i=h("b",{class:"outlined"},t.targets.label(t.targetGroup)),o=n>.8?"agree":n>.4?"agree in part":"disagree";this.headline.replaceChildren("About ",i,`, ${t.name(e[0].measured)} and ${t.name(e[1].measured)} ${o} (rank correlation ${n.toFixed(2)})`),r&&this.headline.append(", most of all on ",h("b",{},t.sources.label(r.group)),`: ${x(s[0][r.group])} against ${x(s[1][r.group])}.`)}disputes(){let{context:t}=this,e=this.pair(),s=Ft(e.map(o=>o.values),t.own).slice(0,6).filter(o=>o.weight>0),n=Math.max(...e.map(o=>C(o.values,t.own))),r=o=>{let a=h("span",{class:"bar"});return a.style.width=`${Math.min(100,Math.abs(o)/n*100)}%`,a.style.backgroundColor=E(M(t.palette,o<0?-.72:.72)),a},i=(o,a)=>A(e[o].values,t.own).findIndex(c=>c.group===a)+1;this.disputed.replaceChildren(h("thead",{},h("tr",{},h("th",{scope:"col"},"token"),...e.flatMap(o=>[h("th",{scope:"col",colspan:"2"},t.name(o.measured)),h("th",{scope:"col"},"rank")]))),h("tbody",{},...s.map(({group:o})=>h("tr",{},h("th",{scope:"row",dir:"auto"},t.sources.label(o)),...e.flatMap((a,c)=>[h("td",{class:"bars"},r(a.values[o])),h("td",{},x(a.values[o])),h("td",{},i(c,o)?String(i(c,o)):"–")])))))}draw(){let t=this.element.clientWidth||900,e=this.height(t);this.painted(S(this.canvas,t,e),this.context,0,t),this.canvas.setAttribute("aria-label",`${this.rowsShown.length} measures by ${this.context.sources.size} sources: the shares of the target, as a heat map. A click compares with that measure.`)}height(t){return this.cell=(t-U)/this.context.sources.size,this.rowsShown.length*K+(this.cell>=13?74:6)}painted(t,e,s,n){let{palette:r,own:i,sources:o,state:a,measured:c}=e;this.rowsShown.forEach(({measured:u,values:d},m)=>{let g=s+m*K,f=C(d,i)||1,b=u===c[a.map]||u===c[a.other??-1];t.text(U-10,g+15,L(t,e.name(u),13,U-16),{size:13,align:"right",fill:b?r.ink:r.quiet,weight:b?700:400});for(let v=0;v<o.size;v++){let w=v===i?0:d[v]/f;t.rect(U+v*this.cell,g,Math.max(this.cell-(this.cell>6?1:0),.6),K-2,E(M(r,w)))}});let p=s+this.rowsShown.length*K;i>=0&&this.cell>=3&&t.rect(U+i*this.cell,s-.5,this.cell-1,p-s-1,null,r.ink,1.5,2),this.cell>=13&&o.groups.forEach((u,d)=>t.text(U+(d+.5)*this.cell+4,p+12,L(t,o.label(d),12,88),{size:12,rotate:-45,align:"right",fill:d===i?r.ink:r.quiet,weight:d===i?700:400}))}over(t){let e=this.rowsShown[Math.floor(t.offsetY/K)],s=Math.floor((t.offsetX-U)/this.cell),n=e&&s>=0&&s<this.context.sources.size;this.canvas.style.cursor=e?"pointer":"",this.context.actions.tip(n?t:null,n?[`${$(this.context.sources.label(s))}: ${x(e.values[s])}`,this.context.name(e.measured)]:[])}pick(t){let e=this.rowsShown[t]?.measured,s=e?this.context.measured.indexOf(e):-1;s>=0&&s!==this.context.state.map&&this.context.actions.set({other:s})}agreements(){let{context:t,rowsShown:e}=this,{own:s,palette:n}=t,r=e.map(a=>V(a.values,s)),i=h("tr",{},h("td"),...e.map((a,c)=>h("th",{scope:"col"},ie(c)))),o=e.map((a,c)=>h("tr",{},h("th",{scope:"row"},`${ie(c)}  ${t.name(a.measured)}`),...r.map((p,u)=>{if(c===u)return h("td",{class:"same"},"·");let d=ut(r[c],p),m=h("td",{},Number.isNaN(d)?"–":d.toFixed(2).replace("-","−"));if(!Number.isNaN(d)){let g=M(n,d*.9);m.style.backgroundColor=E(g),m.style.color=Z(g)}return m})));this.matrix.replaceChildren(h("table",{},h("caption",{class:"quiet"},"Spearman's rank correlation over all sources but the target itself"),h("thead",{},i),h("tbody",{},...o)))}fillLeftOut(){let t=Object.entries(this.context.payload.left_out??{});this.leftOut.hidden=t.length===0,this.leftOut.replaceChildren(h("summary",{},`${t.length} measures left out`),h("dl",{},...t.flatMap(([e,s])=>[h("dt",{},e),h("dd",{},s)])))}paint(t,e,s){if(this.rowsShown.length<2)return 0;t.text(0,20,this.headline.textContent??"",{size:16,weight:600,fill:e.palette.ink});let n=40;this.pair().forEach(({measured:i,values:o},a)=>{t.text(0,n+14,e.name(i),{size:13,fill:e.palette.quiet}),n+=20+this.readings[a].paint(t,e,0,n+20,s,o,C(o,e.own),e.own)+10});let r=this.height(s);return this.painted(t,e,n,s),this.height(this.element.clientWidth||900),n+r}rows(){let{context:t,rowsShown:e}=this;return[["source",...e.map(s=>t.name(s.measured))],...t.sources.groups.map((s,n)=>[t.sources.label(n),...e.map(r=>r.values[n].toPrecision(3))])]}};function ie(l){return l<26?String.fromCharCode(97+l):String(l)}function oe(l,t,e){let s=l.entry.layers.length,n=Fe(l),{start:r,stop:i}=t.groups[e],o=new Float64Array(t.of.length),a=0;for(let u=r;u<i;u++)a+=n[s][u];for(let u=r;u<i;u++)o[u]=a>0?1/a:0;let c=Array.from({length:s+1},()=>new Float64Array(t.size));for(let u=r;u<i;u++)c[s][e]+=o[u]*n[s][u];let p=[];for(let u=s-1;u>=0;u--){let d=new Float64Array(o.length),m=new Map;for(let g=0;g<o.length;g++){if(o[g]===0)continue;let f=o[g];l.eachTransition(u,g,(b,v)=>{d[b]+=f*v;let w=t.of[b]*t.size+t.of[g];m.set(w,(m.get(w)??0)+f*v*n[u][b])})}for(let[g,f]of m){let b=Math.floor(g/t.size);c[u][b]+=f,f>1e-4&&p.push({level:u,source:b,target:g%t.size,value:f})}o=d}return{levels:s+1,mass:c,edges:p}}function Fe(l){let t=l.sources.labels.length,e=[new Float64Array(t).fill(1)];return l.entry.layers.forEach((s,n)=>{let r=new Float64Array(t).fill(l.entry.joined?.normalize===!1?0:1);if(l.entry.joined?.normalize===!1)for(let i=0;i<t;i++)l.eachTransition(n,i,(o,a)=>{r[i]+=a*e[n][o]});e.push(r)}),e}function ae(l,t,e){let s=[],n=l.mass.map(()=>[]);for(let i of l.edges)n[i.level].push(i);let r=new Float64Array(l.mass[t].length);r[e]=l.mass[t][e];for(let i=t-1;i>=0;i--){let o=new Float64Array(r.length);for(let a of n[i]){let c=l.mass[i+1][a.target],p=c>0?a.value*r[a.target]/c:0;p>0&&s.push({...a,value:p}),o[a.source]+=p}r=o}r=new Float64Array(r.length),r[e]=l.mass[t][e];for(let i=t;i<l.levels-1;i++){let o=new Float64Array(r.length);for(let a of n[i]){let c=l.mass[i][a.source],p=c>0?a.value*r[a.source]/c:0;p>0&&s.push({...a,value:p}),o[a.target]+=p}r=o}return s}var D=64,le=40,he=92,je=1200,mt=class{constructor(){this.words=h("p",{class:"quiet","aria-live":"polite"});this.shown=h("output",{});this.flow=null;this.key="";this.width=0;this.step=54;this.at=null;this.canvas=h("canvas",{tabindex:"0",role:"img",onmousemove:t=>this.over(t),onmouseleave:()=>{this.at=null,this.context.actions.tip(null,[]),this.draw()},onclick:()=>this.trace(),onkeydown:t=>this.walk(t)}),this.slider=h("input",{type:"range",min:"0",max:"100",step:"1","aria-label":"Smallest share that is drawn",oninput:()=>this.context.actions.set({threshold:qe(Number(this.slider.value))})}),this.controls=h("label",{class:"field"},h("span",{},"Show from"),this.slider,this.shown),this.table=H("Flow",()=>this.rows()),this.element=h("div",{class:"flow-view"},h("div",{class:"bar-line"},this.words,this.controls),this.canvas,this.table)}update(t){this.context=t;let{current:e,state:s,targets:n}=t,r=this.refusal();if(this.canvas.hidden=this.table.hidden=this.controls.hidden=r!==null,r!==null){this.words.textContent=r;return}let i=[s.map,s.target,s.unit,s.open,n.size].join(" ");i!==this.key&&(this.key=i,this.flow=oe(e,n,n.of[s.target])),this.slider.value=String(De(s.threshold)),this.shown.textContent=x(s.threshold),this.canvas.setAttribute("aria-label","The flow from the input tokens to the target. Arrow keys move between tokens and layers, Enter traces one."),this.draw(),N(this.table,()=>this.rows())}refusal(){let{current:t,targets:e}=this.context;return t.entry.reaches_input?`Each layer of ${t.entry.measure} already speaks of the input tokens: there is nothing to follow.`:!t.whole||!t.entry.joined?"A flow needs the maps of every layer for every token of one text. These hold some targets, some layers or two texts.":e.size>je?"The text is too long to follow: choose words or segments above.":null}edges(){let{node:t,threshold:e}=this.context.state,s=this.flow;return(t&&t[0]<s.levels&&t[1]<this.context.targets.size?ae(s,t[0],t[1]):s.edges).filter(i=>i.value>=e).sort((i,o)=>i.value-o.value)}x(t){return D+(t+.5)*(this.width-D-12)/this.context.targets.size}y(t){return le+(this.flow.levels-1-t)*this.step}draw(){if(this.canvas.hidden||!this.flow)return;this.width=this.element.clientWidth||900,this.step=this.flow.levels>14?34:56;let t=this.y(0)+he,e=S(this.canvas,this.width,t);this.painted(e,this.context)}painted(t,e){let{palette:s,state:n,targets:r,current:i}=e,o=this.flow,a=this.edges(),c=i.entry.layers;for(let k=0;k<o.levels;k++){let T=k===0?"input":`${k===o.levels-1?"layer ":""}${c[k-1]}`;t.text(D-12,this.y(k)+4,T,{size:12,fill:s.quiet,align:"right"}),t.rect(D,this.y(k),this.width-D-12,.5,s.line)}let p=E(M(s,.78)),u=new Map,d=n.node&&o.mass[n.node[0]]?.[n.node[1]]||1;for(let k of a){let T=k.value/d,R=Math.max(.8,15*T);t.curve(this.x(k.source),this.y(k.level),this.x(k.target),this.y(k.level+1),R,p,Math.min(.9,.22+1.6*T));for(let[O,_]of[[k.level,k.source],[k.level+1,k.target]])u.set(`${O} ${_}`,o.mass[O][_])}let m=o.levels-1,g=r.of[n.target];u.set(`${m} ${g}`,1);for(let[k,T]of u){let[R,O]=k.split(" ").map(Number),_=n.node?.[0]===R&&n.node[1]===O,$t=this.at?.[0]===R&&this.at[1]===O;t.circle(this.x(O),this.y(R),2.5+5.5*Math.sqrt(T),p,_||$t?s.ink:s.paper)}let f=t.width(r.label(g),14,700)/2,b=Math.max(f,Math.min(this.width-f-2,this.x(g)));t.text(b,this.y(m)-16,r.label(g),{size:14,weight:700,fill:s.ink,align:"center"}),this.inputs(t,e,u);let v=n.node?` through ${$(r.label(n.node[1]))} at ${dt(n.node[0],c)}`:"",w=n.node?o.mass[n.node[0]]?.[n.node[1]]??0:0;this.words.textContent=v?`${x(w)} of ${$(r.label(g))} passes${v}. Click it again to see everything.`:`How ${$(r.label(g))} is put together, from the input below to the last layer above. Click a point to trace what passes it.`}inputs(t,e,s){let{palette:n,targets:r}=e,i=(this.width-D)/r.size,o=r.groups.map((c,p)=>p).sort((c,p)=>this.flow.mass[0][p]-this.flow.mass[0][c]),a=[];for(let c of o){let p=this.x(c),u=s.has(`0 ${c}`);if(i<15&&(!u||a.some(m=>Math.abs(m-p)<15)))continue;a.push(p);let d=L(t,r.label(c),12,84);t.text(p+4,this.y(0)+18,d,{size:12,rotate:-50,align:"right",fill:u?n.ink:n.quiet,weight:u?600:400})}}over(t){let e=this.flow,s=e.levels-1-Math.round((t.offsetY-le)/this.step),n=Math.round((t.offsetX-D)*this.context.targets.size/(this.width-D-12)-.5),r=s>=0&&s<e.levels&&n>=0&&n<this.context.targets.size;this.at=r?[s,n]:null,this.canvas.style.cursor=r?"pointer":"",this.context.actions.tip(r?t:null,this.sentence()),this.draw()}sentence(){if(!this.at)return[];let[t,e]=this.at,{context:s}=this,n=s.targets.label(s.targets.of[s.state.target]);return[`${$(s.targets.label(e))} at ${dt(t,s.current.entry.layers)}`,`${x(this.flow.mass[t][e])} of ${n} passes here`]}trace(){if(!this.at)return;let{node:t}=this.context.state,e=t&&t[0]===this.at[0]&&t[1]===this.at[1];this.context.actions.set({node:e?null:[...this.at]})}walk(t){let s={ArrowUp:[1,0],ArrowDown:[-1,0],ArrowLeft:[0,-1],ArrowRight:[0,1]}[t.key];if(t.key==="Enter")return this.trace();if(!s)return;t.preventDefault();let{context:n}=this,[r,i]=this.at??[this.flow.levels-1,n.targets.of[n.state.target]];this.at=[Math.max(0,Math.min(this.flow.levels-1,r+s[0])),Math.max(0,Math.min(n.targets.size-1,i+s[1]))],n.actions.announce(this.sentence().join(", ")),this.draw()}paint(t,e,s){if(!this.flow||this.canvas.hidden)return 0;this.width=s,this.painted(t,e);let n=this.y(0)+he;return this.draw(),n}rows(){let{context:t}=this,e=t.current.entry.layers;return[["from","source","to","target","share of the target"],...this.edges().reverse().map(s=>[dt(s.level,e),t.targets.label(s.source),dt(s.level+1,e),t.targets.label(s.target),s.value.toPrecision(3)])]}};function dt(l,t){return l===0?"the input":`layer ${t[l-1]}`}function qe(l){return Number((.001*500**(l/100)).toPrecision(2))}function De(l){return Math.round(Math.log(Math.max(l,.001)/.001)/Math.log(500)*100)}var gt=255,ce=new Map;function Ie(l){let t=ce.get(l);if(!t){t=new Uint32Array(2*gt+1);for(let e=0;e<t.length;e++){let[s,n,r]=M(l,(e-gt)/gt);t[e]=(255<<24|r<<16|n<<8|s)>>>0}ce.set(l,t)}return t}function J(l,t,e,s,n){let r=document.createElement("canvas");r.width=s,r.height=e;let i=r.getContext("2d"),o=i.createImageData(s,e),a=new Uint32Array(o.data.buffer),c=Ie(l);for(let p=0;p<t.length;p++){let u=Math.max(-1,Math.min(1,t[p]/n));a[p]=c[Math.round((u+1)*gt)]}return i.putImageData(o,0,0),r}function st(l,t,e){let s=1e-12;for(let n=0;n<l.length;n++)e&&Math.floor(n/t)===n%t||(s=Math.max(s,Math.abs(l[n])));return s}var Y=58,ft=24,I=6,_e=400,bt=class{constructor(){this.words=h("p",{class:"quiet"});this.tile=64;this.pictures=[];this.key="";this.at=null;this.others=h("div",{class:"pair-choices"});this.canvas=h("canvas",{tabindex:"0",role:"img",onmousemove:t=>this.over(t),onmouseleave:()=>{this.at=null,this.context.actions.tip(null,[]),this.draw()},onclick:()=>this.enter(),onkeydown:t=>this.walk(t)}),this.table=H("Heads",()=>this.rows()),this.whole=h("button",{type:"button",onclick:()=>this.context.actions.set({head:null})},"Back to whole layers"),this.element=h("div",{class:"heads-view"},h("div",{class:"bar-line"},this.words,this.whole),this.others,this.canvas,this.table)}update(t){this.context=t;let{current:e}=t,s=e.heads===0;if(this.canvas.hidden=this.table.hidden=s,this.whole.hidden=t.state.head===null,s){let n=e.entry.notes?.find(i=>i.includes("heads are left out"));this.words.textContent=n??`Heads were not measured. ${e.entry.measure} of single heads: lens.measure("${e.entry.measure}", text, per_head=True), given to the page together with these maps.`;let r=t.measured.map((i,o)=>o).filter(i=>t.measured[i].heads>0);this.others.replaceChildren(...r.map(i=>h("button",{type:"button",onclick:()=>t.actions.set({map:i})},`Heads of ${t.name(t.measured[i])}`)));return}this.others.replaceChildren(),this.words.textContent="Layers down, heads across; in each, targets down and sources across, shaded by its own largest share. A click opens one.",this.prepare(),this.canvas.setAttribute("aria-label",`${e.entry.layers.length} layers by ${e.heads} heads. Arrow keys move, Enter opens a head.`),this.draw(),N(this.table,()=>this.rows())}prepare(){let{context:t}=this,{current:e,targets:s,sources:n,palette:r,state:i}=t,o=[i.map,r.dark,s.size,n.size,i.unit].join(" ");if(o===this.key)return;this.key=o;let a=[...new Set(e.held.map(c=>s.of[c]))].sort((c,p)=>c-p).slice(0,_e);this.pictures=e.entry.layers.flatMap((c,p)=>Array.from({length:e.heads},(u,d)=>{let m=new Float32Array(a.length*n.size);a.forEach((f,b)=>m.set(e.incoming({depth:p,head:d},s,f,n),b*n.size));let g=st(m,n.size,e.square&&a.length===n.size);return J(r,m,a.length,n.size,g)}))}size(t){let{heads:e,entry:s}=this.context.current;return this.tile=Math.max(18,Math.min(132,(t-Y)/e-I)),[Y+e*(this.tile+I),ft+s.layers.length*(this.tile+I)]}draw(){if(this.canvas.hidden)return;let[t,e]=this.size(this.element.clientWidth||900);this.painted(S(this.canvas,t,e),this.context)}painted(t,e){let{palette:s,current:n,state:r}=e,{tile:i}=this,o={size:12,fill:s.quiet};for(let a=0;a<n.heads;a++)t.text(Y+a*(i+I)+i/2,ft-9,a===0?"head 0":String(a),{...o,align:"center"});n.entry.layers.forEach((a,c)=>{let p=ft+c*(i+I);t.text(Y-10,p+i/2+4,c===0?`layer ${a}`:String(a),{...o,align:"right"});for(let u=0;u<n.heads;u++){let d=Y+u*(i+I);t.image(this.pictures[c*n.heads+u],d,p,i,i);let m=r.head===u&&r.depth===c,g=this.at?.[0]===c&&this.at[1]===u;t.rect(d,p,i,i,null,m||g?s.ink:s.line,m?3:g?2:1)}})}over(t){let e=Math.floor((t.offsetX-Y)/(this.tile+I)),s=Math.floor((t.offsetY-ft)/(this.tile+I)),{current:n}=this.context,r=e>=0&&s>=0&&e<n.heads&&s<n.entry.layers.length;this.at=r?[s,e]:null,this.canvas.style.cursor=r?"pointer":"",this.context.actions.tip(r?t:null,this.sentence()),this.draw()}sentence(){if(!this.at)return[];let[t,e]=this.at,{context:s}=this,n=s.incoming(s.current,{depth:t,head:e}),r=A(n,s.own).slice(0,3),i=s.targets.label(s.targetGroup);return[`Layer ${s.current.entry.layers[t]}, head ${e}`,...r.map(({group:o,value:a})=>`${$(s.sources.label(o))}: ${x(a)} of ${$(i)}`)]}enter(){this.at&&this.context.actions.set({depth:this.at[0],head:this.at[1],view:"map"})}walk(t){let s={ArrowUp:[-1,0],ArrowDown:[1,0],ArrowLeft:[0,-1],ArrowRight:[0,1]}[t.key];if(t.key==="Enter")return this.enter();if(!s)return;t.preventDefault();let{current:n}=this.context,[r,i]=this.at??[0,-1];this.at=[Math.max(0,Math.min(n.entry.layers.length-1,r+s[0])),Math.max(0,Math.min(n.heads-1,i+s[1]))],this.context.actions.announce(this.sentence().join(", ")),this.draw()}paint(t,e,s){if(!e.current.heads)return 0;this.prepare();let[,n]=this.size(s);return this.painted(t,e),n}rows(){let{context:t}=this,{current:e}=t,s=t.targets.label(t.targetGroup),n=[["layer","head","target","largest source","share"]];return e.entry.layers.forEach((r,i)=>{for(let o=0;o<e.heads;o++){let a=t.incoming(e,{depth:i,head:o}),c=A(a,t.own)[0];n.push([String(r),String(o),s,c?t.sources.label(c.group):"",C(a,t.own).toPrecision(3)])}}),n}};var We=2500,y=108,jt=10,vt=class{constructor(){this.spacer=h("div",{class:"spacer"});this.words=h("p",{class:"quiet"});this.values=new Float32Array;this.picture=null;this.key="";this.cell=16;this.zoom=1;this.at=null;this.canvas=h("canvas",{tabindex:"0",role:"img",onmousemove:e=>this.over(e),onmouseleave:()=>this.moved(null,null),onclick:()=>this.choose(),onkeydown:e=>this.walk(e)}),this.scroller=h("div",{class:"scroller",onscroll:()=>this.draw()},this.canvas,this.spacer),this.table=H("Map",()=>this.rows());let t=h("label",{class:"field"},h("span",{},"Zoom"),h("input",{type:"range",min:"1",max:"12",step:"0.5",value:"1",oninput:e=>{this.zoom=Number(e.target.value),this.layout()}}));this.element=h("div",{class:"map-view"},h("div",{class:"bar-line"},this.words,t),this.scroller,this.table)}update(t){this.context=t;let{targets:e,sources:s,current:n,state:r}=t,i=this.held();if(Math.max(i.length,s.size)>We){this.words.textContent=`${i.length} × ${s.size} cells are too many to see: choose words or segments above.`,this.scroller.hidden=!0;return}this.scroller.hidden=!1;let o=[r.map,r.depth,r.head,t.palette.dark,e.size,s.size,r.unit,r.open].join(" ");if(o!==this.key){this.key=o;let a=new Float32Array(i.length*s.size);i.forEach((p,u)=>a.set(n.incoming(t.choice,e,p,s),u*s.size)),this.values=a;let c=st(a,s.size,n.square&&i.length===s.size);this.picture=J(t.palette,a,i.length,s.size,c),this.words.textContent=`Targets down, sources across; the darkest cell off the diagonal is ${x(c)} of its target.`,t.palette.dark&&(this.words.textContent=this.words.textContent.replace("darkest","brightest"))}this.canvas.setAttribute("aria-label",`Map of ${i.length} targets by ${s.size} sources. Arrow keys move, Enter chooses the target.`),this.layout(),N(this.table,()=>this.rows())}held(){let{targets:t,current:e}=this.context;return[...new Set(e.held.map(n=>t.of[n]))].sort((n,r)=>n-r)}layout(){if(this.scroller.hidden)return;let{sources:t}=this.context,e=this.held().length,s=Math.max(200,this.scroller.clientWidth||900)-y-16,n=Math.max(240,window.innerHeight*.7)-y,r=Math.min(26,s/t.size,Math.max(n/e,7));this.cell=Math.max(r,1)*this.zoom;let[i,o]=[t.size*this.cell+y+jt,e*this.cell+y+jt];this.scroller.style.height=`${Math.min(o+18,Math.max(320,window.innerHeight*.78))}px`,this.spacer.style.width=`${i}px`,this.spacer.style.height=`${o}px`,this.draw()}draw(){let t=this.scroller.clientWidth,e=this.scroller.clientHeight;if(!t||!this.picture)return;let s=S(this.canvas,t,e);this.painted(s,this.context,this.cell,this.scroller.scrollLeft,this.scroller.scrollTop,t,e)}painted(t,e,s,n,r,i,o){let{palette:a,sources:c,targets:p}=e,u=this.held();t.image(this.picture,y-n,y-r,c.size*s,u.length*s);let d=u.indexOf(e.targets.of[e.state.target]);if(d>=0&&t.rect(y-n,y-r+d*s,c.size*s,Math.max(s,2),null,a.ink,1.5),this.at){let[g,f]=this.at;t.rect(y-n+f*s,y-r+g*s,Math.max(s,2),Math.max(s,2),null,a.ink,2)}t.rect(0,0,y-2,o,a.paper),t.rect(0,0,i,y-2,a.paper);let m=Math.max(1,Math.ceil(12/s));this.names(t,p,u,m,s,(g,f,b)=>{let v=y-r+(g+.5)*s;v>y-4&&v<o&&t.text(y-8,v+4,L(t,f,12,y-14),{size:12,align:"right",fill:b?a.ink:a.quiet,weight:b?700:400})},this.at?.[0]??-1,d),this.names(t,c,c.groups.map((g,f)=>f),m,s,(g,f,b)=>{let v=y-n+(g+.5)*s;v>y-4&&v<i&&t.text(v+4,y-8,L(t,f,12,y+6),{size:12,rotate:-60,fill:b?a.ink:a.quiet,weight:b?700:400})},this.at?.[1]??-1,-1),t.rect(0,0,y-14,y-30,a.paper)}names(t,e,s,n,r,i,o,a){s.forEach((c,p)=>{let u=o>=0&&Math.abs(p-o)*r<12&&p!==o;(p===o||p===a||p%n===0&&!u)&&i(p,e.label(c),p===o||p===a)})}over(t){let e=Math.floor((t.offsetX-y+this.scroller.scrollLeft)/this.cell),s=Math.floor((t.offsetY-y+this.scroller.scrollTop)/this.cell),n=t.offsetX>=y&&t.offsetY>=y&&s<this.held().length&&e<this.context.sources.size;this.moved(n?[s,e]:null,t)}moved(t,e){this.at=t;let s=this.sentence();this.context.actions.tip(t?e:null,s),this.canvas.style.cursor=t?"pointer":"",this.draw()}sentence(){if(!this.at)return[];let{context:t}=this,[e,s]=this.at,n=this.held()[e],r=this.values[e*t.sources.size+s],i=t.current.total(t.choice,t.targets.groups[n].start),o=[`${$(t.sources.label(s))} → ${$(t.targets.label(n))}`,x(r)];return i!==null&&t.state.unit==="tokens"&&o.push(`score ${(r*i).toPrecision(3)}`),o}choose(){if(!this.at)return;let{start:t,stop:e}=this.context.targets.groups[this.held()[this.at[0]]];for(let s=t;s<e;s++)if(this.context.current.holds(s))return this.context.actions.set({target:s,node:null})}walk(t){let s={ArrowUp:[-1,0],ArrowDown:[1,0],ArrowLeft:[0,-1],ArrowRight:[0,1]}[t.key];if(t.key==="Enter")return this.choose();if(!s)return;t.preventDefault();let[n,r]=this.at??[0,-1],i=(o,a)=>Math.max(0,Math.min(a-1,o));this.at=[i(n+s[0],this.held().length),i(r+s[1],this.context.sources.size)],this.context.actions.announce(this.sentence().join(", ")),this.draw()}paint(t,e,s){let{sources:n}=e,r=this.held().length,i=Math.min(28,Math.max(1,(s-y)/n.size)),o=this.at;this.at=null;let a=r*i+y;return n.size*r<=4e3?(this.painted(t,e,i,0,0,s,a+2),this.cells(t,e,i,r)):this.painted(t,e,i,0,0,s,a+2),this.at=o,a+jt}cells(t,e,s,n){let r=e.sources.size,i=st(this.values,r,e.current.square&&n===r);for(let o=0;o<this.values.length;o++){let a=Math.max(-1,Math.min(1,this.values[o]/i));t.rect(y+o%r*s,y+Math.floor(o/r)*s,s-.5,s-.5,E(M(e.palette,a)))}}rows(){let{context:t}=this,e=t.sources.size;return[["target",...t.sources.groups.map((s,n)=>t.sources.label(n))],...this.held().map((s,n)=>[t.targets.label(s),...Array.from(this.values.subarray(n*e,(n+1)*e),r=>r.toPrecision(3))])]}};function ue(l,t){let e=Object.entries(l.evaluations),[s,...n]=l.verdict.split(`
`),r=h("tr",{},h("th",{scope:"col"},"measure"),h("th",{scope:"col"},"mean rank"),...e.map(([o,{direction:a}])=>h("th",{scope:"col"},o.replaceAll("_"," "),h("small",{},a==="neither"?"":`${a} is better`)))),i=l.measures.map(({measure:o,mean_rank:a})=>h("tr",{class:o==="random"?"baseline":null},h("th",{scope:"row"},o),h("td",{},xt(a)),...e.map(([,{measures:c}])=>Ge(c[o],Object.values(c),t))));return h("div",{class:"ranking-view"},h("h1",{class:"answer"},s??""),...n.map(o=>h("p",{},o)),h("div",{class:"wide",tabindex:"0",role:"region","aria-label":"Ranked measures"},h("table",{class:"ranks"},h("caption",{class:"quiet"},`${l.texts} texts. Dots lie between the lowest and the highest value of the column, with their 95 % interval; bold is best, grey italics are not better than random numbers.`),h("thead",{},r),h("tbody",{},...i))),h("h2",{},"What was asked"),h("dl",{},...e.flatMap(([o,{summary:a}])=>[h("dt",{},o.replaceAll("_"," ")),h("dd",{},a)])))}function xt(l){return l==null?"–":l.toFixed(2).replace("-","−")}function Ge(l,t,e){if(!l||l.value===null)return h("td",{},"–");let s=t.flatMap(u=>[u.low,u.high,u.value]).filter(u=>u!==null),[n,r]=[Math.min(...s),Math.max(...s)],i=u=>r>n?(u-n)/(r-n)*100:50,o=h("span",{class:"interval"});o.style.left=`${i(l.low??l.value)}%`,o.style.width=`${i(l.high??l.value)-i(l.low??l.value)}%`;let a=h("span",{class:"dot"});a.style.left=`${i(l.value)}%`,a.style.backgroundColor=l.not_better_than_random?e.quiet:E(M(e,.75));let c=l.is_best?"best":l.not_better_than_random?"luck":null,p=l.low===null?"":`${xt(l.low)} to ${xt(l.high)}`;return h("td",{class:c,title:p},xt(l.value),h("span",{class:"scale","aria-hidden":"true"},o,a))}var z=64,Ue=7,wt=class{constructor(){this.name=h("h2",{});this.strips=[];this.rowHeight=18;this.cell=1;this.canvas=h("canvas",{tabindex:"0",role:"img",onmousemove:t=>this.over(t),onmouseleave:()=>this.context.actions.tip(null,[]),onclick:t=>this.choose(this.hit(t)?.strip??-1),onkeydown:t=>this.key(t)}),this.table=H("Layers",()=>this.rows()),this.element=h("section",{class:"layers","aria-label":"Layer by layer"},this.name,this.canvas,this.table)}update(t){this.context=t;let{current:e}=t;if(this.element.hidden=e.entry.layers.length<2,this.element.hidden)return;let s=e.entry.layers.map((o,a)=>a);e.depths.includes("all")?s.push("all"):e.depths.includes("mean")&&s.push("mean"),this.strips=s.map(o=>({depth:o,name:o==="all"?"all":o==="mean"?"mean":String(e.entry.layers[o]),values:t.incoming(e,{depth:o,head:typeof o=="number"?t.state.head:null})}));let n=this.element.clientWidth||640,r=this.height(n);this.draw(S(this.canvas,n,r),n);let i=t.targets.label(t.targetGroup);this.name.replaceChildren("What ",h("b",{},i)," took in each layer"),this.canvas.setAttribute("aria-label",`What ${$(i)} took in each layer, as a heat map: ${this.strips.length} rows, ${t.sources.size} columns. Arrow keys up and down choose a layer.`),N(this.table,()=>this.rows())}height(t){let e=this.strips.length;return this.rowHeight=e>40?7:e>16?11:18,this.cell=(t-z)/this.context.sources.size,this.top(e)+this.labels(t)}top(t){let e=this.strips.length-1,s=typeof this.strips[e]?.depth=="string";return t*this.rowHeight+(s&&t>=e?Ue:0)}labels(t){return this.cell<13?this.context.current.sources.seconds?18:4:this.slanted(t)?74:20}slanted(t){let e=new W(this.canvas.getContext("2d")),s=(t-z)/this.context.sources.size;return this.context.sources.groups.some((n,r)=>e.width(this.context.sources.label(r),12)>s-4)}draw(t,e,s=0){let{context:n,strips:r,rowHeight:i}=this,{palette:o,own:a,state:c}=n,p=d=>Math.max(1e-12,...r.filter(m=>typeof m.depth=="string"===d).map(m=>C(m.values,a))),u=[p(!1),p(!0)];r.forEach((d,m)=>{let g=s+this.top(m),f=d.depth===c.depth,b=u[typeof d.depth=="string"?1:0],v=i>=13?1:i>=10?2:4;(m%v===0||f||typeof d.depth=="string")&&t.text(z-10,g+i/2+4,`${m===0?"layer ":""}${d.name}`,{size:12,fill:f?o.ink:o.quiet,weight:f?700:400,align:"right"}),this.cells(t,d.values,a,b,g),f&&t.rect(z-1,g-1,e-z+1,i+.5,null,o.ink,1.5,3)}),this.drawColumns(t,e,s)}cells(t,e,s,n,r){let{context:i,cell:o,rowHeight:a}=this,c=m=>Math.max(-1,Math.min(1,m/n));if(o>=6){e.forEach((m,g)=>{let f=E(M(i.palette,c(m)));t.rect(z+g*o,r,o-1,a-1.5,f)});return}let p=Math.max(1,Math.round(1.5/o)),u=new Float32Array(Math.ceil(e.length/p));e.forEach((m,g)=>{let f=Math.floor(g/p);g!==s&&Math.abs(m)>Math.abs(u[f])&&(u[f]=m)});let d=J(i.palette,u,1,u.length,n);t.image(d,z,r,o*p*u.length,a-1.5)}drawColumns(t,e,s){let{context:n,cell:r}=this,{palette:i,own:o,sources:a}=n,c=s+this.top(this.strips.length)-1,p=n.current.sources.seconds;if(p){let d=qt(p*a.size);for(let m=0;m<=p*a.size;m+=d)t.text(z+m/p*r,c+14,`${Number(m.toFixed(2))} s`,{size:11,fill:i.quiet,align:m+d>p*a.size?"right":m?"center":"left"});return}if(o>=0&&r>=3&&t.rect(z+o*r-.5,s-.5,r,c-s+.5,null,i.ink,1.5,2),r<13)return;let u=this.slanted(e);a.groups.forEach((d,m)=>{let g=z+(m+.5)*r,f={size:12,fill:m===o?i.ink:i.quiet,weight:m===o?700:400},b=L(t,a.label(m),12,u?88:r);u?t.text(g+4,c+12,b,{...f,align:"right",rotate:-45}):t.text(g,c+15,b,{...f,align:"center"})})}hit(t){let e=this.strips.findIndex((n,r)=>t.offsetY>=this.top(r)&&t.offsetY<this.top(r)+this.rowHeight),s=Math.floor((t.offsetX-z)/this.cell);return e<0?null:{strip:e,group:s>=0&&s<this.context.sources.size?s:-1}}over(t){let e=this.hit(t);if(this.canvas.style.cursor=e?"pointer":"",!e||e.group<0)return this.context.actions.tip(null,[]);let{strip:s,group:n}=e,{context:r}=this,i=this.strips[s].values[n];r.actions.tip(t,[`${$(r.sources.label(n))}: ${x(i)} of ${$(r.targets.label(r.targetGroup))}`,r.current.depthName(this.strips[s].depth)])}choose(t){let e=this.strips[t]?.depth;e!==void 0&&this.context.actions.set({depth:e,head:typeof e=="number"?this.context.state.head:null})}key(t){let e={ArrowUp:-1,ArrowDown:1}[t.key];if(!e)return;t.preventDefault();let s=this.strips.findIndex(r=>r.depth===this.context.state.depth),n=Math.max(0,Math.min(this.strips.length-1,s+e));this.choose(n),this.context.actions.announce(this.context.current.depthName(this.strips[n].depth))}paint(t,e,s,n){if(this.element.hidden)return 0;let r=this.height(n);return this.draw(t,n,s),r}rows(){let{sources:t}=this.context;return[["source",...this.strips.map(e=>this.context.current.depthName(e.depth))],...t.groups.map((e,s)=>[t.label(s),...this.strips.map(n=>n.values[s].toPrecision(3))])]}};function qt(l){let t=l/6,e=10**Math.floor(Math.log10(t));return([1,2,5,10].find(s=>s*e>=t)??10)*e}var yt=class{constructor(){this.picture=new Image;this.grey=null;this.context=null;this.values=[];this.scale=0;this.canvas=h("canvas",{role:"img","aria-label":"The picture, its patches shaded by their share; the ranked list has the numbers",onmousemove:t=>this.over(t),onmouseleave:()=>this.over(null),onclick:t=>this.choose(t)}),this.element=h("figure",{class:"picture"},this.canvas),this.picture.addEventListener("load",()=>{this.grey=Be(this.picture),this.draw()})}show(t,e,s){let{image:n}=t.payload;n&&(Object.assign(this,{context:t,values:e,scale:s}),this.picture.src!==n.src&&(this.picture.src=n.src),this.draw())}size(t){let e=(this.picture.naturalHeight||1)/(this.picture.naturalWidth||1),s=Math.min(t,520,520/e);return[s,s*e]}draw(){if(!this.context||!this.picture.naturalWidth)return;let[t,e]=this.size(this.element.clientWidth||420);this.painted(S(this.canvas,t,e),this.context,0,0,t,e)}painted(t,e,s,n,r,i){let{rows:o,columns:a,first:c}=e.payload.image,{sources:p,own:u}=e;t.image(this.grey??this.picture,s,n,r,i,!0);let[d,m]=[r/a,i/o];for(let g=0;g<o*a;g++){let f=p.of[c+g];if(f===void 0)break;let b=this.scale>0?this.values[f]/this.scale:0,[v,w]=[s+g%a*d,n+Math.floor(g/a)*m],k=Math.min(.85,b**2*.85),T=E(M(it,b<0?-.75:.75)).replace(")",`, ${k})`);t.rect(v,w,d,m,T),f===u&&t.rect(v+1,w+1,d-2,m-2,null,"#ffffff",3)}}patch(t){let{context:e}=this;if(!e)return null;let{rows:s,columns:n,first:r}=e.payload.image,i=Math.floor(t.offsetX/this.canvas.clientWidth*n),o=Math.floor(t.offsetY/this.canvas.clientHeight*s);return r+o*n+i}over(t){let{context:e}=this,s=t&&this.patch(t);if(!e||s===null||!t){e?.actions.tip(null,[]);return}let{columns:n,first:r}=e.payload.image,i=e.sources.of[s]??0,o=`row ${Math.floor((s-r)/n)}, column ${(s-r)%n}`;e.actions.tip(t,[`Patch in ${o}`,`${x(this.values[i]??0)} of the target`])}choose(t){let e=this.patch(t);this.context&&e!==null&&this.context.current.square&&this.context.current.holds(e)&&this.context.actions.set({target:e})}paint(t,e,s,n,r,i,o){Object.assign(this,{values:i,scale:o});let[a,c]=this.size(r);return this.painted(t,e,s,n,a,c),c}};function Be(l){let t=document.createElement("canvas");t.width=l.naturalWidth,t.height=l.naturalHeight;let e=t.getContext("2d");e.drawImage(l,0,0);let s=e.getImageData(0,0,t.width,t.height);for(let n=0;n<s.data.length;n+=4){let[r,i,o]=s.data.subarray(n,n+3);s.data.fill(.3*r+.59*i+.11*o,n,n+3)}return e.putImageData(s,0,0),t}var X=120,pe=22,kt=class{constructor(){this.context=null;this.values=[];this.scale=0;this.canvas=h("canvas",{role:"img","aria-label":"The share of each frame over time; the ranked list has the numbers",onmousemove:t=>this.over(t),onmouseleave:()=>this.context?.actions.tip(null,[])}),this.element=h("figure",{class:"strip"},this.canvas)}show(t,e,s){if(!t.current.sources.seconds)return;Object.assign(this,{context:t,values:e,scale:s});let n=this.element.clientWidth||640;this.painted(S(this.canvas,n,X+pe),t,0,0,n)}painted(t,e,s,n,r){let{palette:i}=e,o=e.current.sources.seconds,a=r/this.values.length;for(let u=0;u<this.values.length;u++){let d=this.scale>0?this.values[u]/this.scale:0,m=Math.max(1,Math.abs(d)*X),g=E(M(i,.25*Math.sign(d||1)+.75*d));t.rect(s+u*a,n+X-m,Math.max(a-(a>4?1:0),.7),m,g)}t.rect(s,n+X,r,1,i.quiet);let c=o*this.values.length,p=qt(c);for(let u=0;u<=c+1e-9;u+=p)t.text(s+u/c*r,n+X+16,`${Number(u.toFixed(2))} s`,{size:12,fill:i.quiet,align:u===0?"left":u+p>c?"right":"center"})}over(t){let{context:e}=this;if(!e)return;let s=Math.floor(t.offsetX/this.canvas.clientWidth*this.values.length),n=Math.max(0,Math.min(this.values.length-1,s));e.actions.tip(t,[e.sources.label(n),`${x(this.values[n])} of the target`])}paint(t,e,s,n,r,i,o){return Object.assign(this,{values:i,scale:o}),this.painted(t,e,s,n,r),X+pe}};var Mt=12,Ve=6,Et=class{constructor(){this.answer=h("h1",{class:"answer"});this.legend=h("p",{class:"legend"});this.picture=new yt;this.strip=new kt;this.sourceName=h("h2",{},"Source");this.targetName=h("h2",{},"Target");this.layers=new wt;this.inList=h("table",{class:"ranked"});this.outList=h("table",{class:"ranked"});this.outName=h("h2",{});this.inName=h("h2",{});this.rest=h("p",{class:"quiet"});this.pointedSource=null;this.sourceText=new G("The text: choose a target",{choose:t=>this.choose(t,!0),point:(t,e)=>this.point(t,e,!0),close:t=>this.close(t)}),this.targetText=new G("The target side: choose a target",{choose:t=>this.choose(t,!1),point:(t,e)=>this.point(t,e,!1),close:t=>this.close(t)}),this.element=h("div",{class:"text-view"},this.answer,h("div",{class:"columns"},h("div",{class:"main"},this.targetName,this.targetText.element,this.sourceName,this.picture.element,this.strip.element,this.sourceText.element,this.legend,this.layers.element),h("aside",{class:"side","aria-label":"Ranked sources"},this.inName,this.inList,this.rest,this.outName,this.outList)))}choose(t,e){let{context:s}=this,n=e?s.sources:s.targets,{start:r,stop:i,segment:o}=n.groups[t];if(o!==null){s.actions.set({open:[...s.state.open,o]});return}if(!(e&&!s.current.square)){for(let a=r;a<i;a++)if(s.current.holds(a)){s.actions.set({target:a,node:null}),s.actions.announce(this.sentence());return}}}close(t){let e=this.context.state.open.filter(s=>s!==t);this.context.actions.set({open:e})}point(t,e,s){let{context:n}=this,r=!n.current.square,i=this.pointedSource;if(this.pointedSource=r&&s?t:null,this.pointedSource!==i&&this.shaded(),t===null){n.actions.tip(null,[]),n.actions.point(null);return}let o=s?n.sources:n.targets,{start:a,stop:c}=o.groups[t],p=!s||n.current.square,u=-1;for(let m=a;m<c&&u<0;m++)p&&n.current.holds(m)&&(u=m);let d=this.words(t,s);e?n.actions.tip(e,d):(s?this.sourceText:this.targetText).describe(t,d.join(". ")),n.actions.point(u<0?null:u)}words(t,e){let{context:s}=this,n=s.preview;s.preview=null;let r=(e?s.sources:s.targets).label(t),i=s.targets.label(s.targetGroup),o=[r];if(e){let a=s.incoming(),c=A(a,s.own).findIndex(p=>p.group===t);t===s.own?o.push(`the target; ${x(a[t])} of it is its own`):a[t]?o.push(`${x(a[t])} of ${i}${c>=0?`, number ${c+1}`:""}`):o.push(`nothing of it is in ${i}`)}return s.preview=n,o}update(t){this.context=t;let{current:e,sources:s,targets:n,payload:r}=t,i=!e.square;this.picture.element.hidden=!r.image,this.sourceText.element.hidden=!!r.image&&!i&&s.text.special.every(a=>a===0);let o=!!e.sources.seconds;this.strip.element.hidden=!o,o&&(this.sourceText.element.hidden=!0),this.targetName.hidden=!i,this.sourceName.hidden=!i,this.targetText.element.hidden=!i,this.sourceText.show(s,t),i&&this.targetText.show(n,t),this.shaded(),this.layers.update(t)}pointed(t){this.context=t,this.shaded(),this.layers.update(t)}shaded(){let{context:t}=this,{own:e,sources:s,targets:n,targetGroup:r,current:i}=t,o=t.incoming(),a=C(o,e),c=t.preview===null;this.sourceText.shadeBy(t,o,a,e,c),i.square||this.shadeTargets(r,c),this.picture.show(t,o,a),this.strip.show(t,o,a);let p=A(o,e);c&&this.answer.replaceChildren(...this.sentenceParts()),this.inList.classList.toggle("long",t.state.unit==="segments"||!!t.payload.image),this.fillLegend(a);let u=n.label(r);this.inName.replaceChildren("Where ",h("b",{},u)," comes from");let d=e>=0&&o[e]?[{group:e,value:o[e]}]:[];de(this.inList,p.slice(0,Mt),d,a,b=>s.label(b),t);let m=Array.from(o).reduce((b,v)=>b+Math.abs(v),0),g=p.slice(Mt).reduce((b,v)=>b+Math.abs(v.value),0),f=[];p.length>Mt&&f.push(`${p.length-Mt} more sources: ${x(g)}`),!i.complete&&m<.9995&&f.push(`small shares left out of this page: ${x(1-m)}`),this.rest.textContent=f.join(" · "),this.goesTo(u)}shadeTargets(t,e){let{context:s,pointedSource:n}=this,{current:r,targets:i,sources:o}=s,a=n===null?new Float64Array(i.size):r.outgoing(s.choice,i,o,n),c=n===null?t:-1;this.targetText.shadeBy(s,a,C(a,-1),c,e)}goesTo(t){let{context:e}=this,{current:s,targets:n,targetGroup:r}=e,i=s.square&&s.held.length>1;if(this.outName.hidden=this.outList.hidden=!i,!i)return;let o=e.outgoing();this.outName.replaceChildren("Where ",h("b",{},t)," goes");let a=A(o,r).slice(0,Ve);this.outName.hidden=this.outList.hidden=a.length===0,de(this.outList,a,[],C(o,r),c=>n.label(c),e)}fillLegend(t){let{palette:e,current:s}=this.context,n=h("span",{class:"ramp"}),r=s.entry.signed?-5:0,i=Array.from({length:6-r},(o,a)=>E(M(e,(a+r)/5)));n.style.backgroundImage=`linear-gradient(to right, ${i.join(", ")})`,this.legend.replaceChildren(h("span",{class:"outlined"},"target"),h("span",{},s.entry.signed?x(-t):"0 %"),n,h("span",{},x(t)),h("span",{class:"quiet"},"share of the target · point at a word to follow it, click to keep it"))}most(){let{context:t}=this,{current:e}=t,[s,n]=[t.fine(e.targets),t.fine(e.sources)],r=s.of[t.state.target],i=e.incoming(t.choice,s,r,n),o=e.square?r:-1,a=A(i,o).slice(0,3);return{target:s.label(r),top:a.map(c=>[n.label(c.group),c.value]),own:o<0?0:i[o]}}sentenceParts(){let{target:t,top:e,own:s}=this.most(),n=i=>document.createTextNode(i),r=[h("b",{class:"outlined"},t)];return r.push(n(e.length?" took most from ":" took nothing from other tokens")),e.forEach(([i,o],a)=>{a&&r.push(n(a===e.length-1?" and ":", ")),r.push(h("b",{},i),n(` ${x(o)}`))}),s&&r.push(h("span",{class:"quiet"},` · ${x(s)} is its own`)),r}sentence(){let{target:t,top:e}=this.most();return`${$(t)} took most from ${re(e)}`}paint(t,e,s){let{palette:n,own:r,current:i}=e,o=e.incoming(),a=C(o,r);t.text(0,22,this.sentence(),{size:17,fill:n.ink,weight:600});let c=40;return i.square||(c+=this.targetText.paint(t,e,0,c,s,new Float64Array(e.targets.size),1,e.targetGroup)+12),e.payload.image?c+=this.picture.paint(t,e,0,c,s,o,a)+12:c+=this.sourceText.paint(t,e,0,c,s,o,a,r)+12,c+this.layers.paint(t,0,c,s)+8}rows(t){let e=t.incoming(),s=t.targets.label(t.targetGroup);return[["target","source","position","share","rank"],...A(e,-1).map(({group:n,value:r},i)=>[s,t.sources.label(n),String(t.sources.groups[n].start),r.toPrecision(4),String(i+1)])]}};function de(l,t,e,s,n,r){let i=(a,c,p)=>{let u=h("span",{class:"bar"});return u.style.width=`${Math.min(100,s>0?Math.abs(a.value)/s*100:0)}%`,u.style.backgroundColor=p?r.palette.quiet:E(M(r.palette,a.value<0?-.72:.72)),h("tr",{class:p?"own":null},h("th",{scope:"row",dir:"auto"},c),h("td",{class:"bars"},u),h("td",{},x(a.value)))},o=h("tr",{},h("th",{scope:"col"},"token"),h("td"),h("th",{scope:"col"},"share"));l.replaceChildren(h("thead",{class:"unseen"},o),h("tbody",{},...t.map(a=>i(a,n(a.group),!1)),...e.map(a=>i(a,"itself",!0))))}var me={text:"Text",map:"Map",heads:"Heads",flow:"Flow",compare:"Compare"},Ke=1500,nt=class{constructor(t,e,s,n){this.root=t;this.linked=n;this.bar=h("header",{class:"bar-top"});this.tabs=h("div",{class:"tabs",role:"tablist","aria-label":"Views"});this.panel=h("div",{class:"panel",role:"tabpanel",tabindex:"-1"});this.foot=h("footer",{});this.tip=h("div",{class:"tip","aria-hidden":"true"});this.said=h("div",{class:"unseen","aria-live":"polite"});this.dark=window.matchMedia("(prefers-color-scheme: dark)");this.frame=0;t.classList.add("mixlens");let r=s&&te(s,e,i=>this.show(i));t.replaceChildren(...r?[r]:[],this.bar,this.tabs,this.panel,this.foot,this.tip,this.said),this.dark.addEventListener("change",()=>this.update()),new ResizeObserver(()=>this.soon()).observe(t),n&&window.addEventListener("hashchange",()=>{this.context.measured.length&&location.hash.slice(1)!==Nt(this.context.state,this.first)&&(this.context.state=this.sound(Rt(location.hash,this.first)),this.update())}),this.show(e,!0)}show(t,e=!1){ee(t),this.views={text:new Et,map:new vt,heads:new bt,flow:new mt,compare:new pt};let s=this.context?.state.theme??"auto";this.context=new lt(t,{},{set:n=>this.set(n),point:n=>this.point(n),tip:(n,r)=>this.tipAt(n,r),announce:n=>{this.said.textContent=n}}),this.tabs.hidden=!t.maps.length,this.first=t.maps.length?this.firstState(t,s):{theme:s},t.maps.length?this.context.state=e&&this.linked?this.sound(Rt(location.hash,this.first)):{...this.first}:this.context.state=this.first,this.update()}withoutMaps(){let{payload:t,palette:e}=this.context;this.bar.replaceChildren(h("p",{class:"title"},t.title)),this.foot.replaceChildren(h("p",{},`mixlens ${t.mixlens}`)),this.panel.replaceChildren(t.ranking?ue(t.ranking,e):h("p",{class:"quiet"},"Type a text above and press Measure."))}firstState(t,e){let{measured:s}=this.context,n=Math.max(0,t.maps.findIndex(p=>p.measure==="value_zeroing")),r=s[n].sources,i=(r.words??r.labels).length,o=r.segments&&i>Ke?"segments":r.words?"words":"tokens",a=t.start?.target??s[n].held[0]??0;return{view:q.find(p=>p===t.start?.view)??"text",map:n,other:null,target:a,depth:s[n].defaultDepth,head:null,unit:o,threshold:.02,open:o==="segments"?this.strongest(s[n],a):[],node:null,theme:e}}strongest(t,e){let s=new F(t.sources,"segments"),n=new F(t.targets,"tokens"),r={depth:t.defaultDepth,head:null},i=t.incoming(r,n,e,s);return A(i,-1).slice(0,2).map(o=>o.group)}sound(t){let e={...t},{measured:s}=this.context;s[e.map]||(e.map=this.first.map);let n=s[e.map];return n.depths.includes(e.depth)||(e.depth=n.defaultDepth),e.head!==null&&(typeof e.depth!="number"||!(e.head>=0&&e.head<n.heads))&&(e.head=null),n.holds(e.target)||(e.target=n.holds(this.first.target)?this.first.target:n.held[n.held.length-1]),e.unit==="segments"&&!n.sources.segments&&(e.unit=n.sources.words?"words":"tokens"),e.unit==="words"&&!n.sources.words&&!n.targets.words&&(e.unit="tokens"),e.other!==null&&!s[e.other]&&(e.other=null),e}set(t){let{context:e}=this;if(e.preview=null,e.state=this.sound({...e.state,...t}),this.linked){let s=Nt(e.state,this.first);history.replaceState(null,"",`${location.pathname}${location.search}${s?`#${s}`:""}`)}this.update(),this.tipAt(null,[])}point(t){this.context.preview!==t&&(this.context.preview=t,cancelAnimationFrame(this.frame),this.frame=requestAnimationFrame(()=>this.view.pointed?.(this.context)))}get view(){return this.views[this.context.state.view]}soon(){cancelAnimationFrame(this.frame),this.frame=requestAnimationFrame(()=>this.update())}paint(){let{theme:t}=this.context.state,e=t==="dark"||t==="auto"&&this.dark.matches;this.context.palette=e?_t:it,this.root.dataset.theme=e?"dark":"light",this.linked&&(document.documentElement.dataset.theme=e?"dark":"light")}update(){if(this.paint(),!this.context.measured.length)return this.withoutMaps();this.choices(),this.tabBar();let{element:t}=this.view;this.panel.firstChild!==t&&this.panel.replaceChildren(t),this.view.update(this.context),this.footLine()}choices(){let{context:t}=this,{state:e,measured:s,current:n}=t,r=[P("Measure",s.map((u,d)=>[String(d),t.name(u)]),String(e.map),u=>this.set({map:Number(u),head:null})),P("Layer",n.depths.map(u=>[String(u),n.depthName(u)]),String(e.depth),u=>this.set({depth:u==="all"||u==="mean"?u:Number(u)}))];n.heads&&typeof e.depth=="number"&&r.push(P("Head",[["","whole layer"],...Array.from({length:n.heads},(u,d)=>[String(d),String(d)])],e.head===null?"":String(e.head),u=>this.set({head:u===""?null:Number(u)})));let{words:i,segments:o}=n.sources,a=[["tokens","Tokens"]];(i||n.targets.words)&&a.unshift(["words","Words"]),o&&a.push(["segments","Segments"]),a.length>1&&r.push(P("By",a,e.unit,u=>this.set({unit:u,node:null})));let c=this.root.getRootNode().activeElement,p=c&&this.bar.contains(c)?[...this.bar.querySelectorAll("select, button, summary")].indexOf(c):-1;this.bar.replaceChildren(...r,h("span",{class:"push"}),this.themeButton(),this.exportMenu()),p>=0&&this.bar.querySelectorAll("select, button, summary")[p]?.focus()}themeButton(){let t=this.context.palette.dark;return h("button",{type:"button",class:"plain","aria-label":t?"Light colours":"Dark colours",onclick:()=>this.set({theme:t?"light":"dark"})},t?"☀":"☾")}exportMenu(){let t=`mixlens-${this.context.state.view}`,e=(n,r)=>h("button",{type:"button",onclick:async()=>{s.open=!1;try{await r()}catch(i){this.context.actions.announce(i.message),this.tipAt(null,[])}}},n),s=h("details",{class:"menu"},h("summary",{},"Save"),h("div",{},e("Picture (PNG)",async()=>et(`${t}.png`,await Ht(this.view,this.context),"image/png")),e("Drawing (SVG)",()=>et(`${t}.svg`,Xt(this.view,this.context),"image/svg+xml")),e("Numbers (CSV)",()=>et(`${t}.csv`,Zt(this.view.rows(this.context)),"text/csv")),e("Numbers (JSON)",()=>et(`${t}.json`,Qt(this.view,this.context),"application/json")),e("Copy the picture",async()=>navigator.clipboard.write([new ClipboardItem({"image/png":Ht(this.view,this.context)})])),...this.linked?[e("Copy a link to this view",()=>navigator.clipboard.writeText(location.href))]:[]));return s.addEventListener("keydown",n=>{n.key==="Escape"&&(s.open=!1)}),s}tabBar(){let{state:t}=this.context;if(!this.tabs.children.length)for(let e of q)this.tabs.append(h("button",{type:"button",role:"tab","data-view":e,onclick:()=>this.set({view:e}),onkeydown:s=>this.tabKey(s)},me[e]));for(let e of this.tabs.children){let s=e.dataset.view===t.view;e.setAttribute("aria-selected",String(s)),e.tabIndex=s?0:-1}this.panel.setAttribute("aria-label",me[t.view])}tabKey(t){let e={ArrowLeft:-1,ArrowRight:1}[t.key];if(!e)return;t.preventDefault();let s=(q.indexOf(this.context.state.view)+e+q.length)%q.length;this.set({view:q[s]}),this.tabs.children[s].focus()}footLine(){let{current:t,payload:e}=this.context,{provenance:s,citation:n,summary:r,notes:i,measure:o}=t.entry,a=Object.entries(s.options??{}).map(([m,g])=>`${m}=${String(g)}`).join(", "),c=(s.steps??[]).join(" → "),p=s.name??s.model??"",u=[p&&`${p}${s.dtype?` in ${String(s.dtype)}`:""}`,`${o}${a?` (${a})`:""}${c?` → ${c}`:""}`,t.entry.joined&&`layers joined by ${t.entry.joined.how}`,s.site,n,"shares in float16, three digits",`mixlens ${e.mixlens}`],d=t.complete?[]:[`Of each row and column only the largest shares are in this page; for this target ${x(Math.max(0,1-Array.from(this.context.incoming()).reduce((m,g)=>m+Math.abs(g),0)))} is left out.`];this.foot.replaceChildren(h("p",{},h("b",{},o),r?`: ${r}.`:"."),h("p",{},u.filter(Boolean).join(" · ")),...[...i??[],...d].map(m=>h("p",{},m)))}tipAt(t,e){let{tip:s}=this;if(s.classList.toggle("on",!!(t&&e.length)),!t||!e.length)return;s.replaceChildren(...e.map((a,c)=>h(c?"div":"b",{dir:"auto"},a)));let{clientX:n,clientY:r}=t,i=s.offsetWidth,o=s.offsetHeight;s.style.left=`${Math.max(4,Math.min(n+14,window.innerWidth-i-8))}px`,s.style.top=`${r+18+o>window.innerHeight?r-o-12:r+18}px`}};var ge=`html {
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
`;function be(l){let t=new CSSStyleSheet;t.replaceSync(ge),l.adoptedStyleSheets=[...l.adoptedStyleSheets,t]}function ve(l,t){try{t()}catch(e){l.replaceChildren(h("p",{role:"alert"},`This view cannot be shown: ${e.message}`))}}var fe=typeof document>"u"?null:document.getElementById("payload"),Dt=typeof document>"u"?null:document.getElementById("view");if(fe&&Dt){be(document);let l=JSON.parse(fe.textContent??"null"),t=location.protocol!=="about:";ve(Dt,()=>new nt(Dt,l,l.live?new ct(l.live.api):null,t))}var It=class{constructor(t){this.model=t;this.running=0}choices(){return Promise.resolve(this.model.get("choices"))}run(t){let e=++this.running;return new Promise((s,n)=>{let r=()=>{let i=this.model.get("answer");i.number===e&&(this.model.off("change:answer",r),i.payload?s(i.payload):n(new Error(i.error??"The kernel gave no answer.")))};this.model.on("change:answer",r),this.model.set("job",{...t,number:e}),this.model.save_changes()})}cancel(){}};function Ye({model:l,el:t}){let e=t.attachShadow({mode:"open"});be(e);let s=h("div");e.append(s),ve(s,()=>new nt(s,l.get("payload"),new It(l),!1))}return $e(Xe);})();
