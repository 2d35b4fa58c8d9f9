import{o as f,p as ae,s as ie,q as le,F as V,r as ce,c as z,i as Z,t as ue,_ as v,b as x,R as fe,Q as de}from"./q-B5aEPSEU.js";const U={manifestHash:"egr066",core:"q-SnBzF4mg.js",preloader:"q-BKZ00VYc.js",qwikLoader:"q-naDMFAHy.js",bundleGraphAsset:"assets/BR4Cmpd_-bundle-graph.json",injections:[{tag:"link",location:"head",attributes:{rel:"stylesheet",href:"/assets/CUqfuO7_-style.css"}}],mapping:{s_QEStXN0WZmc:"q-p8kV9xrm.js",s_o20tiywa0W4:"q-BL8-f-RF.js",s_2nGFHVb3ZEo:"q-p8kV9xrm.js",s_KyZp1DSKDuo:"q-Cp4FhWXc.js",s_BgOF59GqwDY:"q-Cp4FhWXc.js",s_HDQRZoeRyaY:"q-Cp4FhWXc.js",s_WGex705IFbM:"q-BudXo1Oa.js",s_pvGA3kKKGls:"q-BudXo1Oa.js",s_xMzj4f3oxvY:"q-BudXo1Oa.js",s_0uWmRTJ1SOM:"q-BL8-f-RF.js",s_7WqfLzWojn4:"q-DO-gpcsI.js",s_NgcQ2aTsNiM:"q-Ca4ZmwTB.js",s_vUL0zekKPmc:"q-BudXo1Oa.js",s_xWvVA0vTx9g:"q-p8kV9xrm.js",s_06aOfxPbmX0:"q-Dbc8O-cU.js",s_5A8KeZFYtMQ:"q-DGnu8NaZ.js",s_Oj8N8t4uGdA:"q-3HJF-EMa.js",s_S7ExTFlff5Q:"q-BASBXy9Q.js",s_qeSbCcYsluE:"q-QNvYbvDl.js",s_7jCB6kuMgEg:"q-DobkEZeP.js",s_Q14BlIAQxPo:"q-ClMcsZrF.js",s_T60unusP0lM:"q-DGenpOIS.js",s_iSTEWRggHX0:"q-BlaUA7Fs.js",s_q0gfSpLNtNk:"q-4tL83J4T.js",s_0U5DS8tEK8w:"q-D1iW4IRw.js",s_3cwdFU02l0s:"q-DRIdM2m0.js",s_8aeS3GA7xpY:"q-wXEVeIds.js",s_AX91v14DQEk:"q-p8kV9xrm.js",s_CxbM7aAu0RE:"q-Dh3rfRXk.js",s_EQsJSWcg0dY:"q-CR1kIPsG.js",s_EThmfcL8qTg:"q-DdwE42yg.js",s_Ig318sIu0mY:"q-h0xcyU6g.js",s_L3kGso6R0yA:"q-cWZYSRH8.js",s_Lll8YBOGiFk:"q-8rqDAPna.js",s_OTVTRbkk9zU:"q-DO-gpcsI.js",s_Oi9FHtEypa4:"q-BL8-f-RF.js",s_OkHxh0Vfjxw:"q-BsP_gfhZ.js",s_PPdIePPyfp0:"q-BtXz1Lde.js",s_V5mnqyE5q54:"q-BQEvZk9h.js",s_VXY6jnnkWcQ:"q-DFsF4te2.js",s_WFrg00ywzNw:"q-Ca4ZmwTB.js",s_aOSddocG57g:"q-B6tHnWVs.js",s_gJbus09GaEM:"q-Cp4FhWXc.js",s_l0HhW2KLzHE:"q-DurxajBA.js",s_mqzN0N02wNk:"q-BudXo1Oa.js",s_oJTzvcc4qFc:"q-DwJUigEc.js",s_Lxrv8YLzdZ0:"q-Ca4ZmwTB.js",s_8VWiHwzrfjw:"q-BZ6b5J94.js",s_KiE0SRsq7X8:"q-VR5hTjlx.js",s_VEjF9hVDeQA:"q-Dg5R6MtX.js",s_ggMPxVjtZB4:"q-DAdJrSI7.js",s_yq9jbSdaYjM:"q-BV5b_vX1.js",s_01pkIB6Q8rc:"q-DO-gpcsI.js",s_0OktGkermTE:"q-p8kV9xrm.js",s_0fQAwr65qxs:"q-cWZYSRH8.js",s_3HoX0U2jobM:"q-BudXo1Oa.js",s_5QeeRhF0dF0:"q-BL8-f-RF.js",s_6RytEunRcrQ:"q-h0xcyU6g.js",s_7G9n09J2yfY:"q-Ca4ZmwTB.js",s_MiNSHHUwatw:"q-BsP_gfhZ.js",s_Oarx5X28OcI:"q-cWZYSRH8.js",s_YB6F6FEAUhk:"q-DRIdM2m0.js",s_Z03l7LwGO7Q:"q-Dh3rfRXk.js",s_oVrhhXYRhII:"q-BudXo1Oa.js",s_sBAhIGKljXo:"q-Cp4FhWXc.js",s_sJdOV0wXc4M:"q-DFsF4te2.js",s_uIzzsrx5h7o:"q-cWZYSRH8.js",s_xMCzmvaK57g:"q-DFsF4te2.js",s_ywDdnJ0subU:"q-p8kV9xrm.js",s_zSebXdB1Gtg:"q-Ca4ZmwTB.js"}};var me=!1,pe="",he=(e,...t)=>{const n=ve(me,e,...t);debugger;return n},be=e=>e,ve=(e,t,...n)=>{const r=t instanceof Error?t:new Error(t);return console.error("%cQWIK ERROR",pe,r.message,...be(n),r.stack),r},ye=(e,...t)=>`Code(${e}) https://github.com/QwikDev/qwik/blob/main/packages/qwik/src/core/error/error.ts#L${8+e}`,qe=11,_e=(e,...t)=>{const n=ye(e,...t);return he(n,...t)},ge="<sync>";function we(e,t){const n=t?.mapper,r=e.symbolMapper?e.symbolMapper:(s,a,i)=>{if(n){const l=B(s),c=n[l];if(!c){if(l===ge)return[l,""];if(globalThis.__qwik_reg_symbols?.has(l))return[s,"_"];if(i)return[s,`${i}?qrl=${s}`];console.error("Cannot resolve symbol",s,"in",n,i)}return c}};return{isServer:!0,async importSymbol(s,a,i){const l=B(i),c=globalThis.__qwik_reg_symbols?.get(l);if(c)return c;throw _e(qe,i)},raf:()=>(console.error("server can not rerender"),Promise.resolve()),nextTick:s=>new Promise(a=>{setTimeout(()=>{a(s())})}),chunkForSymbol(s,a,i){return r(s,n,i)}}}async function $e(e,t){const n=we(e,t);ie(n)}var B=e=>{const t=e.lastIndexOf("_");return t>-1?e.slice(t+1):e},Ee="q:instance",N={$DEBUG$:!1,$invPreloadProbability$:.65},je=Date.now(),Se=/\.[mc]?js$/,J=0,ke=1,Pe=2,xe=3,D,L,Be=(e,t)=>({$name$:e,$state$:Se.test(e)?J:xe,$deps$:K?t?.map(n=>({...n,$factor$:1})):t,$inverseProbability$:1,$createdTs$:Date.now(),$waitedMs$:0,$loadedMs$:0}),Ae=e=>{const t=new Map;let n=0;for(;n<e.length;){const r=e[n++],o=[];let s,a=1;for(;s=e[n],typeof s=="number";)s<0?a=-s/10:o.push({$name$:e[s],$importProbability$:a,$factor$:1}),n++;t.set(r,o)}return t},Y=e=>{let t=T.get(e);if(!t){let n;if(L){if(n=L.get(e),!n)return;n.length||(n=void 0)}t=Be(e,n),T.set(e,t)}return t},Re=(e,t)=>{t&&("debug"in t&&(N.$DEBUG$=!!t.debug),typeof t.preloadProbability=="number"&&(N.$invPreloadProbability$=1-t.preloadProbability)),!(D!=null||!e)&&(D="",L=Ae(e))},T=new Map,K,A,ee=0,j=[],Ce=(...e)=>{console.log(`Preloader ${Date.now()-je}ms ${ee}/${j.length} queued>`,...e)},Ie=()=>{T.clear(),A=!1,K=!0,ee=0,j.length=0},Oe=()=>{A&&(j.sort((e,t)=>e.$inverseProbability$-t.$inverseProbability$),A=!1)},Ne=()=>{Oe();let e=.4;const t=[];for(const n of j){const r=Math.round((1-n.$inverseProbability$)*10);r!==e&&(e=r,t.push(e)),t.push(n.$name$)}return t},te=(e,t,n)=>{if(n?.has(e))return;const r=e.$inverseProbability$;if(e.$inverseProbability$=t,!(r-e.$inverseProbability$<.01)&&(D!=null&&e.$state$<Pe&&(e.$state$===J&&(e.$state$=ke,j.push(e),N.$DEBUG$&&Ce(`queued ${Math.round((1-e.$inverseProbability$)*100)}%`,e.$name$)),A=!0),e.$deps$)){n||(n=new Set),n.add(e);const o=1-e.$inverseProbability$;for(const s of e.$deps$){const a=Y(s.$name$);if(a.$inverseProbability$===0)continue;let i;if(o===1||o>=.99&&F<100)F++,i=Math.min(.01,1-s.$importProbability$);else{const l=1-s.$importProbability$*o,c=s.$factor$,d=l/c;i=Math.max(.02,a.$inverseProbability$*d),s.$factor$=d}te(a,i,n)}}},G=(e,t)=>{const n=Y(e);n&&n.$inverseProbability$>t&&te(n,t)},F,De=(e,t)=>{if(!e?.length)return;F=0;let n=t?1-t:.4;if(Array.isArray(e))for(let r=e.length-1;r>=0;r--){const o=e[r];typeof o=="number"?n=1-o/10:G(o,n)}else G(e,n)};function Le(e){const t=[],n=r=>{if(r)for(const o of r)t.includes(o.url)||(t.push(o.url),o.imports&&n(o.imports))};return n(e),t}var Te=e=>{const t=ce(),n=e?.qrls?.map(r=>{const o=r.$refSymbol$||r.$symbol$,s=r.$chunk$,a=t.chunkForSymbol(o,s,r.dev?.file);return a?a[1]:s}).filter(Boolean);return[...new Set(n)]};function Fe(e,t,n){const r=t.prefetchStrategy;if(r===null)return[];if(!n?.manifest.bundleGraph)return Te(e);if(typeof r?.symbolsToPrefetch=="function")try{const s=r.symbolsToPrefetch({manifest:n.manifest});return Le(s)}catch(s){console.error("getPrefetchUrls, symbolsToPrefetch()",s)}const o=new Set;for(const s of e?.qrls||[]){const a=B(s.$refSymbol$||s.$symbol$);a&&a.length>=10&&o.add(a)}return[...o]}var Qe=(e,t)=>{if(!t?.manifest.bundleGraph)return[...new Set(e)];Ie();let n=.99;for(const r of e.slice(0,15))De(r,n),n*=.85;return Ne()},Q=(e,t)=>{if(t==null)return null;const n=`${e}${t}`.split("/"),r=[];for(const o of n)o===".."&&r.length>0?r.pop():r.push(o);return r.join("/")},He=(e,t,n,r,o)=>{const s=Q(e,t?.manifest?.preloader),a="/"+t?.manifest.bundleGraphAsset;if(s&&a&&n!==!1){const l=typeof n=="object"?{debug:n.debug,preloadProbability:n.ssrPreloadProbability}:void 0;Re(t?.manifest.bundleGraph,l);const c=[];n?.debug&&c.push("d:1"),n?.maxIdlePreloads&&c.push(`P:${n.maxIdlePreloads}`),n?.preloadProbability&&c.push(`Q:${n.preloadProbability}`);const d=c.length?`,{${c.join(",")}}`:"",y=`let b=fetch("${a}");import("${s}").then(({l})=>l(${JSON.stringify(e)},b${d}));`;r.push(f("link",{rel:"modulepreload",href:s,nonce:o,crossorigin:"anonymous"}),f("link",{rel:"preload",href:a,as:"fetch",crossorigin:"anonymous",nonce:o}),f("script",{type:"module",async:!0,dangerouslySetInnerHTML:y,nonce:o}))}const i=Q(e,t?.manifest.core);i&&r.push(f("link",{rel:"modulepreload",href:i,nonce:o}))},Me=(e,t,n,r,o)=>{if(r.length===0||n===!1)return null;const{ssrPreloads:s,ssrPreloadProbability:a}=Xe(typeof n=="boolean"?void 0:n);let i=s;const l=[],c=[],d=t?.manifest.manifestHash;if(i){const q=t?.manifest.preloader,m=t?.manifest.core,h=Qe(r,t);let $=4;const S=a*10;for(const b of h)if(typeof b=="string"){if($<S)break;if(b===q||b===m)continue;if(c.push(b),--i===0)break}else $=b}const y=Q(e,d&&t?.manifest.preloader);let w=c.length?`${JSON.stringify(c)}.map((l,e)=>{e=document.createElement('link');e.rel='modulepreload';e.href=${JSON.stringify(e)}+l;document.head.appendChild(e)});`:"";return y&&(w+=`window.addEventListener('load',f=>{f=_=>import("${y}").then(({p})=>p(${JSON.stringify(r)}));try{requestIdleCallback(f,{timeout:2000})}catch(e){setTimeout(f,200)}})`),w&&l.push(f("script",{type:"module","q:type":"preload",async:!0,dangerouslySetInnerHTML:w,nonce:o})),l.length>0?f(V,{children:l}):null},We=(e,t,n,r,o)=>{if(n.preloader!==!1){const s=Fe(t,n,r);if(s.length>0){const a=Me(e,r,n.preloader,s,n.serverData?.nonce);a&&o.push(a)}}};function Xe(e){return{...Ue,...e}}var Ue={ssrPreloads:7,ssrPreloadProbability:.5,debug:!1,maxIdlePreloads:25,preloadProbability:.35},Ge='const t=document,e=window,n=new Set,o=new Set([t]);let r;const s=(t,e)=>Array.from(t.querySelectorAll(e)),a=t=>{const e=[];return o.forEach(n=>e.push(...s(n,t))),e},i=t=>{w(t),s(t,"[q\\\\:shadowroot]").forEach(t=>{const e=t.shadowRoot;e&&i(e)})},c=t=>t&&"function"==typeof t.then,l=(t,e,n=e.type)=>{a("[on"+t+"\\\\:"+n+"]").forEach(o=>{b(o,t,e,n)})},f=e=>{if(void 0===e._qwikjson_){let n=(e===t.documentElement?t.body:e).lastElementChild;for(;n;){if("SCRIPT"===n.tagName&&"qwik/json"===n.getAttribute("type")){e._qwikjson_=JSON.parse(n.textContent.replace(/\\\\x3C(\\/?script)/gi,"<$1"));break}n=n.previousElementSibling}}},p=(t,e)=>new CustomEvent(t,{detail:e}),b=async(e,n,o,r=o.type)=>{const s="on"+n+":"+r;e.hasAttribute("preventdefault:"+r)&&o.preventDefault(),e.hasAttribute("stoppropagation:"+r)&&o.stopPropagation();const a=e._qc_,i=a&&a.li.filter(t=>t[0]===s);if(i&&i.length>0){for(const t of i){const n=t[1].getFn([e,o],()=>e.isConnected)(o,e),r=o.cancelBubble;c(n)&&await n,r&&o.stopPropagation()}return}const l=e.getAttribute(s);if(l){const n=e.closest("[q\\\\:container]"),r=n.getAttribute("q:base"),s=n.getAttribute("q:version")||"unknown",a=n.getAttribute("q:manifest-hash")||"dev",i=new URL(r,t.baseURI);for(const p of l.split("\\n")){const l=new URL(p,i),b=l.href,h=l.hash.replace(/^#?([^?[|]*).*$/,"$1")||"default",q=performance.now();let _,d,y;const w=p.startsWith("#"),g={qBase:r,qManifest:a,qVersion:s,href:b,symbol:h,element:e,reqTime:q};if(w){const e=n.getAttribute("q:instance");_=(t["qFuncs_"+e]||[])[Number.parseInt(h)],_||(d="sync",y=Error("sym:"+h))}else{u("qsymbol",g);const t=l.href.split("#")[0];try{const e=import(t);f(n),_=(await e)[h],_||(d="no-symbol",y=Error(`${h} not in ${t}`))}catch(t){d||(d="async"),y=t}}if(!_){u("qerror",{importError:d,error:y,...g}),console.error(y);break}const m=t.__q_context__;if(e.isConnected)try{t.__q_context__=[e,o,l];const n=_(o,e);c(n)&&await n}catch(t){u("qerror",{error:t,...g})}finally{t.__q_context__=m}}}},u=(e,n)=>{t.dispatchEvent(p(e,n))},h=t=>t.replace(/([A-Z])/g,t=>"-"+t.toLowerCase()),q=async t=>{let e=h(t.type),n=t.target;for(l("-document",t,e);n&&n.getAttribute;){const o=b(n,"",t,e);let r=t.cancelBubble;c(o)&&await o,r||(r=r||t.cancelBubble||n.hasAttribute("stoppropagation:"+t.type)),n=t.bubbles&&!0!==r?n.parentElement:null}},_=t=>{l("-window",t,h(t.type))},d=()=>{const s=t.readyState;if(!r&&("interactive"==s||"complete"==s)&&(o.forEach(i),r=1,u("qinit"),(e.requestIdleCallback??e.setTimeout).bind(e)(()=>u("qidle")),n.has("qvisible"))){const t=a("[on\\\\:qvisible]"),e=new IntersectionObserver(t=>{for(const n of t)n.isIntersecting&&(e.unobserve(n.target),b(n.target,"",p("qvisible",n)))});t.forEach(t=>e.observe(t))}},y=(t,e,n,o=!1)=>{t.addEventListener(e,n,{capture:o,passive:!1})},w=(...t)=>{for(const r of t)"string"==typeof r?n.has(r)||(o.forEach(t=>y(t,r,q,!0)),y(e,r,_,!0),n.add(r)):o.has(r)||(n.forEach(t=>y(r,t,q,!0)),o.add(r))};if(!("__q_context__"in t)){t.__q_context__=0;const r=e.qwikevents;r&&(Array.isArray(r)?w(...r):w("click","input")),e.qwikevents={events:n,roots:o,push:w},y(t,"readystatechange",d),d()}',Ve=`const doc = document;
const win = window;
const events = /* @__PURE__ */ new Set();
const roots = /* @__PURE__ */ new Set([doc]);
let hasInitialized;
const nativeQuerySelectorAll = (root, selector) => Array.from(root.querySelectorAll(selector));
const querySelectorAll = (query) => {
  const elements = [];
  roots.forEach((root) => elements.push(...nativeQuerySelectorAll(root, query)));
  return elements;
};
const findShadowRoots = (fragment) => {
  processEventOrNode(fragment);
  nativeQuerySelectorAll(fragment, "[q\\\\:shadowroot]").forEach((parent) => {
    const shadowRoot = parent.shadowRoot;
    shadowRoot && findShadowRoots(shadowRoot);
  });
};
const isPromise = (promise) => promise && typeof promise.then === "function";
const broadcast = (infix, ev, type = ev.type) => {
  querySelectorAll("[on" + infix + "\\\\:" + type + "]").forEach((el) => {
    dispatch(el, infix, ev, type);
  });
};
const resolveContainer = (containerEl) => {
  if (containerEl._qwikjson_ === void 0) {
    const parentJSON = containerEl === doc.documentElement ? doc.body : containerEl;
    let script = parentJSON.lastElementChild;
    while (script) {
      if (script.tagName === "SCRIPT" && script.getAttribute("type") === "qwik/json") {
        containerEl._qwikjson_ = JSON.parse(
          script.textContent.replace(/\\\\x3C(\\/?script)/gi, "<$1")
        );
        break;
      }
      script = script.previousElementSibling;
    }
  }
};
const createEvent = (eventName, detail) => new CustomEvent(eventName, {
  detail
});
const dispatch = async (element, onPrefix, ev, eventName = ev.type) => {
  const attrName = "on" + onPrefix + ":" + eventName;
  if (element.hasAttribute("preventdefault:" + eventName)) {
    ev.preventDefault();
  }
  if (element.hasAttribute("stoppropagation:" + eventName)) {
    ev.stopPropagation();
  }
  const ctx = element._qc_;
  const relevantListeners = ctx && ctx.li.filter((li) => li[0] === attrName);
  if (relevantListeners && relevantListeners.length > 0) {
    for (const listener of relevantListeners) {
      const results = listener[1].getFn([element, ev], () => element.isConnected)(ev, element);
      const cancelBubble = ev.cancelBubble;
      if (isPromise(results)) {
        await results;
      }
      if (cancelBubble) {
        ev.stopPropagation();
      }
    }
    return;
  }
  const attrValue = element.getAttribute(attrName);
  if (attrValue) {
    const container = element.closest("[q\\\\:container]");
    const qBase = container.getAttribute("q:base");
    const qVersion = container.getAttribute("q:version") || "unknown";
    const qManifest = container.getAttribute("q:manifest-hash") || "dev";
    const base = new URL(qBase, doc.baseURI);
    for (const qrl of attrValue.split("\\n")) {
      const url = new URL(qrl, base);
      const href = url.href;
      const symbol = url.hash.replace(/^#?([^?[|]*).*$/, "$1") || "default";
      const reqTime = performance.now();
      let handler;
      let importError;
      let error;
      const isSync = qrl.startsWith("#");
      const eventData = {
        qBase,
        qManifest,
        qVersion,
        href,
        symbol,
        element,
        reqTime
      };
      if (isSync) {
        const hash = container.getAttribute("q:instance");
        handler = (doc["qFuncs_" + hash] || [])[Number.parseInt(symbol)];
        if (!handler) {
          importError = "sync";
          error = new Error("sym:" + symbol);
        }
      } else {
        emitEvent("qsymbol", eventData);
        const uri = url.href.split("#")[0];
        try {
          const module = import(
                        uri
          );
          resolveContainer(container);
          handler = (await module)[symbol];
          if (!handler) {
            importError = "no-symbol";
            error = new Error(\`\${symbol} not in \${uri}\`);
          }
        } catch (err) {
          importError || (importError = "async");
          error = err;
        }
      }
      if (!handler) {
        emitEvent("qerror", {
          importError,
          error,
          ...eventData
        });
        console.error(error);
        break;
      }
      const previousCtx = doc.__q_context__;
      if (element.isConnected) {
        try {
          doc.__q_context__ = [element, ev, url];
          const results = handler(ev, element);
          if (isPromise(results)) {
            await results;
          }
        } catch (error2) {
          emitEvent("qerror", { error: error2, ...eventData });
        } finally {
          doc.__q_context__ = previousCtx;
        }
      }
    }
  }
};
const emitEvent = (eventName, detail) => {
  doc.dispatchEvent(createEvent(eventName, detail));
};
const camelToKebab = (str) => str.replace(/([A-Z])/g, (a) => "-" + a.toLowerCase());
const processDocumentEvent = async (ev) => {
  let type = camelToKebab(ev.type);
  let element = ev.target;
  broadcast("-document", ev, type);
  while (element && element.getAttribute) {
    const results = dispatch(element, "", ev, type);
    let cancelBubble = ev.cancelBubble;
    if (isPromise(results)) {
      await results;
    }
    cancelBubble || (cancelBubble = cancelBubble || ev.cancelBubble || element.hasAttribute("stoppropagation:" + ev.type));
    element = ev.bubbles && cancelBubble !== true ? element.parentElement : null;
  }
};
const processWindowEvent = (ev) => {
  broadcast("-window", ev, camelToKebab(ev.type));
};
const processReadyStateChange = () => {
  const readyState = doc.readyState;
  if (!hasInitialized && (readyState == "interactive" || readyState == "complete")) {
    roots.forEach(findShadowRoots);
    hasInitialized = 1;
    emitEvent("qinit");
    const riC = win.requestIdleCallback ?? win.setTimeout;
    riC.bind(win)(() => emitEvent("qidle"));
    if (events.has("qvisible")) {
      const results = querySelectorAll("[on\\\\:qvisible]");
      const observer = new IntersectionObserver((entries) => {
        for (const entry of entries) {
          if (entry.isIntersecting) {
            observer.unobserve(entry.target);
            dispatch(entry.target, "", createEvent("qvisible", entry));
          }
        }
      });
      results.forEach((el) => observer.observe(el));
    }
  }
};
const addEventListener = (el, eventName, handler, capture = false) => {
  el.addEventListener(eventName, handler, { capture, passive: false });
};
const processEventOrNode = (...eventNames) => {
  for (const eventNameOrNode of eventNames) {
    if (typeof eventNameOrNode === "string") {
      if (!events.has(eventNameOrNode)) {
        roots.forEach(
          (root) => addEventListener(root, eventNameOrNode, processDocumentEvent, true)
        );
        addEventListener(win, eventNameOrNode, processWindowEvent, true);
        events.add(eventNameOrNode);
      }
    } else {
      if (!roots.has(eventNameOrNode)) {
        events.forEach(
          (eventName) => addEventListener(eventNameOrNode, eventName, processDocumentEvent, true)
        );
        roots.add(eventNameOrNode);
      }
    }
  }
};
if (!("__q_context__" in doc)) {
  doc.__q_context__ = 0;
  const qwikevents = win.qwikevents;
  if (qwikevents) {
    if (Array.isArray(qwikevents)) {
      processEventOrNode(...qwikevents);
    } else {
      processEventOrNode("click", "input");
    }
  }
  win.qwikevents = {
    events,
    roots,
    push: processEventOrNode
  };
  addEventListener(doc, "readystatechange", processReadyStateChange);
  processReadyStateChange();
}`;function ze(e={}){return e.debug?Ve:Ge}function O(){if(typeof performance>"u")return()=>0;const e=performance.now();return()=>(performance.now()-e)/1e6}function Ze(e){let t=e.base;return typeof e.base=="function"&&(t=e.base(e)),typeof t=="string"?(t.endsWith("/")||(t+="/"),t):"/build/"}var Je="<!DOCTYPE html>";async function Ye(e,t){let n=t.stream,r=0,o=0,s=0,a=0,i="",l;const c=t.streaming?.inOrder??{strategy:"auto",maximunInitialChunk:5e4,maximunChunk:3e4},d=t.containerTagName??"html",y=t.containerAttributes??{},R=n,w=O(),q=Ze(t),m=et(t.manifest),h=t.serverData?.nonce;function $(){i&&(R.write(i),i="",r=0,s++,s===1&&(a=w()))}function S(u){const p=u.length;r+=p,o+=p,i+=u}switch(c.strategy){case"disabled":n={write:S};break;case"direct":n=R;break;case"auto":let u=0,p=!1;const W=c.maximunChunk??0,I=c.maximunInitialChunk??0;n={write(_){_==="<!--qkssr-f-->"?p||(p=!0):_==="<!--qkssr-pu-->"?u++:_==="<!--qkssr-po-->"?u--:S(_),u===0&&(p||r>=(s===0?I:W))&&(p=!1,$())}};break}d==="html"?n.write(Je):n.write("<!--cq-->"),m||console.warn("Missing client manifest, loading symbols in the client might 404. Please ensure the client build has run and generated the manifest for the server build."),await $e(t,m);const b=m?.manifest.injections,k=b?b.map(u=>f(u.tag,u.attributes??{})):[];let P=t.qwikLoader?typeof t.qwikLoader=="object"?t.qwikLoader.include==="never"?2:0:t.qwikLoader==="inline"?1:t.qwikLoader==="never"?2:0:0;const C=m?.manifest.qwikLoader;if(P===0&&!C&&(P=1),P===0)k.unshift(f("link",{rel:"modulepreload",href:`${q}${C}`,nonce:h}),f("script",{type:"module",async:!0,src:`${q}${C}`,nonce:h}));else if(P===1){const u=ze({debug:t.debug});k.unshift(f("script",{id:"qwikloader",type:"module",async:!0,nonce:h,dangerouslySetInnerHTML:u}))}He(q,m,t.preloader,k,h);const ne=O(),re=[];let H=0,M=0;await ae(e,{stream:n,containerTagName:d,containerAttributes:y,serverData:t.serverData,base:q,beforeContent:k,beforeClose:async(u,p,W,I)=>{H=ne();const _=O();l=await le(u,p,void 0,I);const g=[];We(q,l,t,m,g);const oe=JSON.stringify(l.state,void 0,void 0);if(g.push(f("script",{type:"qwik/json",dangerouslySetInnerHTML:tt(oe),nonce:h})),l.funcs.length>0){const E=y[Ee];g.push(f("script",{"q:func":"qwik/json",dangerouslySetInnerHTML:st(E,l.funcs),nonce:h}))}const X=Array.from(p.$events$,E=>JSON.stringify(E));if(X.length>0){const E=`(window.qwikevents||(window.qwikevents=[])).push(${X.join(",")})`;g.push(f("script",{dangerouslySetInnerHTML:E,nonce:h}))}return nt(re,u),M=_(),f(V,{children:g})},manifestHash:m?.manifest.manifestHash||"dev"+Ke()}),d!=="html"&&n.write("<!--/cq-->"),$();const se=l.resources.some(u=>u._cache!==1/0);return{prefetchResources:void 0,snapshotResult:l,flushes:s,manifest:m?.manifest,size:o,isStatic:!se,timing:{render:H,snapshot:M,firstFlush:a}}}function Ke(){return Math.random().toString(36).slice(2)}function et(e){const t=e?{...U,...e}:U;if(!t||"mapper"in t)return t;if(t.mapping){const n={};return Object.entries(t.mapping).forEach(([r,o])=>{n[B(r)]=[r,o]}),{mapper:n,manifest:t,injections:t.injections||[]}}}var tt=e=>e.replace(/<(\/?script)/gi,"\\x3C$1");function nt(e,t){for(const n of t){const r=n.$componentQrl$?.getSymbol();r&&!e.includes(r)&&e.push(r)}}var rt='document["qFuncs_HASH"]=';function st(e,t){return rt.replace("HASH",e)+`[${t.join(`,
`)}]`}const ot=()=>{const e=ue();return v("head",null,null,[v("meta",null,{charset:"utf-8"},null,3,null),v("meta",null,{name:"viewport",content:"width=device-width, initial-scale=1"},null,3,null),v("meta",null,{name:"color-scheme",content:"light dark"},null,3,null),v("title",null,null,e.title?`${e.title} · Scriptorium`:"Scriptorium",1,null),v("link",null,{rel:"icon",href:"/favicon.svg",type:"image/svg+xml"},null,3,null),v("script",null,{src:"/theme.js"},null,3,null)],1,"r6_0")},at=z(Z(ot,"s_oJTzvcc4qFc")),it=()=>x(de,{children:[x(at,null,3,"0Q_0"),v("body",null,null,x(fe,null,3,"0Q_1"),1,null)]},1,"0Q_2"),lt=z(Z(it,"s_l0HhW2KLzHE"));function ft(e){return Ye(x(lt,null,3,"Wr_0"),{...e,prefetchStrategy:null,containerAttributes:{lang:"en"}})}export{ft as default};
