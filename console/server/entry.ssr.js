import{j as b,g as Se,s as ke,h as Ee,F as ne,k as Pe,c as re,i as C,l as se,m as xe,n as Ce,o as R,_ as S,p as Le,S as je,q as Ne,r as B,t as Re,u as Y,v as $,w as Ae,x as Ie,y as Te,z as pe,A as k,e as De,f as he,B as Be,C as ie}from"./q-CDx04N23.js";const le={manifestHash:"noszqw",core:"q-06Fx-lHw.js",preloader:"q-BKZ00VYc.js",qwikLoader:"q-naDMFAHy.js",bundleGraphAsset:"assets/Czcxf5k_-bundle-graph.json",injections:[{tag:"style",location:"head",attributes:{"data-src":"/assets/9kb09pv5-style.css",dangerouslySetInnerHTML:`:root{color-scheme:light dark;--paper: light-dark(#ffffff, #14161a);--ink: light-dark(#1a1c20, #e8eaee);--faint: light-dark(#5a6070, #a2a9b8);--line: light-dark(#d9dce3, #343944);--accent: light-dark(#0b57d0, #8ab4f8);--bad: light-dark(#b3261e, #f2b8b5);font:16px/1.5 system-ui,sans-serif}body{margin:0;background:var(--paper);color:var(--ink)}main{max-width:72rem;margin:0 auto;padding:1rem}a{color:var(--accent)}table{width:100%;border-collapse:collapse}th,td{text-align:left;padding:.4rem .6rem;border-bottom:1px solid var(--line)}input,button{font:inherit;color:inherit;padding:.4rem .6rem;border:1px solid var(--faint);border-radius:.3rem;background:transparent}button{cursor:pointer}:focus-visible{outline:3px solid var(--accent);outline-offset:2px}.faint{color:var(--faint)}.bad{color:var(--bad)}
`}}],mapping:{s_9l78qPnC8ho:"q-rSnmDF2n.js",s_7WqfLzWojn4:"q-CxW19Aut.js",s_NgcQ2aTsNiM:"q-B1LTE8mr.js",s_qeSbCcYsluE:"q-b2waVsGY.js",s_T60unusP0lM:"q-CCyixC_8.js",s_q0gfSpLNtNk:"q-Sig2dIa8.js",s_uAgWr6MpLik:"q-DSMY7Z7y.js",s_8aeS3GA7xpY:"q-C-NCQ3cj.js",s_Ig318sIu0mY:"q-DOtE-TsA.js",s_L3kGso6R0yA:"q-s_sOn-4x.js",s_Lll8YBOGiFk:"q-j3fBHAaH.js",s_OTVTRbkk9zU:"q-CxW19Aut.js",s_VXY6jnnkWcQ:"q-CuMlJtR3.js",s_WFrg00ywzNw:"q-B1LTE8mr.js",s_gJbus09GaEM:"q-rSnmDF2n.js",s_l0HhW2KLzHE:"q-2tYjtGzt.js",s_Lxrv8YLzdZ0:"q-B1LTE8mr.js",s_8VWiHwzrfjw:"q-Dl5L7fT1.js",s_KiE0SRsq7X8:"q-BNrSxCAx.js",s_VEjF9hVDeQA:"q-Dg5R6MtX.js",s_ggMPxVjtZB4:"q-CYKN8gb_.js",s_01pkIB6Q8rc:"q-CxW19Aut.js",s_0fQAwr65qxs:"q-s_sOn-4x.js",s_6RytEunRcrQ:"q-DOtE-TsA.js",s_7G9n09J2yfY:"q-B1LTE8mr.js",s_Oarx5X28OcI:"q-s_sOn-4x.js",s_sBAhIGKljXo:"q-rSnmDF2n.js",s_sJdOV0wXc4M:"q-CuMlJtR3.js",s_uIzzsrx5h7o:"q-s_sOn-4x.js",s_xMCzmvaK57g:"q-CuMlJtR3.js",s_zSebXdB1Gtg:"q-B1LTE8mr.js"}};var Oe=!1,Qe="",Me=(t,...e)=>{const n=ze(Oe,t,...e);debugger;return n},Fe=t=>t,ze=(t,e,...n)=>{const r=e instanceof Error?e:new Error(e);return console.error("%cQWIK ERROR",Qe,r.message,...Fe(n),r.stack),r},Ue=(t,...e)=>`Code(${t}) https://github.com/QwikDev/qwik/blob/main/packages/qwik/src/core/error/error.ts#L${8+t}`,Ge=11,He=(t,...e)=>{const n=Ue(t,...e);return Me(n,...e)},We="<sync>";function Ye(t,e){const n=e?.mapper,r=t.symbolMapper?t.symbolMapper:(o,a,i)=>{if(n){const l=M(o),c=n[l];if(!c){if(l===We)return[l,""];if(globalThis.__qwik_reg_symbols?.has(l))return[o,"_"];if(i)return[o,`${i}?qrl=${o}`];console.error("Cannot resolve symbol",o,"in",n,i)}return c}};return{isServer:!0,async importSymbol(o,a,i){const l=M(i),c=globalThis.__qwik_reg_symbols?.get(l);if(c)return c;throw He(Ge,i)},raf:()=>(console.error("server can not rerender"),Promise.resolve()),nextTick:o=>new Promise(a=>{setTimeout(()=>{a(o())})}),chunkForSymbol(o,a,i){return r(o,n,i)}}}async function Ve(t,e){const n=Ye(t,e);ke(n)}var M=t=>{const e=t.lastIndexOf("_");return e>-1?t.slice(e+1):t},Je="q:instance",J={$DEBUG$:!1,$invPreloadProbability$:.65},Ke=Date.now(),Xe=/\.[mc]?js$/,ve=0,Ze=1,et=2,tt=3,K,X,nt=(t,e)=>({$name$:t,$state$:Xe.test(t)?ve:tt,$deps$:ye?e?.map(n=>({...n,$factor$:1})):e,$inverseProbability$:1,$createdTs$:Date.now(),$waitedMs$:0,$loadedMs$:0}),rt=t=>{const e=new Map;let n=0;for(;n<t.length;){const r=t[n++],s=[];let o,a=1;for(;o=t[n],typeof o=="number";)o<0?a=-o/10:s.push({$name$:t[o],$importProbability$:a,$factor$:1}),n++;e.set(r,s)}return e},be=t=>{let e=Z.get(t);if(!e){let n;if(X){if(n=X.get(t),!n)return;n.length||(n=void 0)}e=nt(t,n),Z.set(t,e)}return e},st=(t,e)=>{e&&("debug"in e&&(J.$DEBUG$=!!e.debug),typeof e.preloadProbability=="number"&&(J.$invPreloadProbability$=1-e.preloadProbability)),!(K!=null||!t)&&(K="",X=rt(t))},Z=new Map,ye,F,ge=0,I=[],ot=(...t)=>{console.log(`Preloader ${Date.now()-Ke}ms ${ge}/${I.length} queued>`,...t)},at=()=>{Z.clear(),F=!1,ye=!0,ge=0,I.length=0},it=()=>{F&&(I.sort((t,e)=>t.$inverseProbability$-e.$inverseProbability$),F=!1)},lt=()=>{it();let t=.4;const e=[];for(const n of I){const r=Math.round((1-n.$inverseProbability$)*10);r!==t&&(t=r,e.push(t)),e.push(n.$name$)}return e},we=(t,e,n)=>{if(n?.has(t))return;const r=t.$inverseProbability$;if(t.$inverseProbability$=e,!(r-t.$inverseProbability$<.01)&&(K!=null&&t.$state$<et&&(t.$state$===ve&&(t.$state$=Ze,I.push(t),J.$DEBUG$&&ot(`queued ${Math.round((1-t.$inverseProbability$)*100)}%`,t.$name$)),F=!0),t.$deps$)){n||(n=new Set),n.add(t);const s=1-t.$inverseProbability$;for(const o of t.$deps$){const a=be(o.$name$);if(a.$inverseProbability$===0)continue;let i;if(s===1||s>=.99&&ee<100)ee++,i=Math.min(.01,1-o.$importProbability$);else{const l=1-o.$importProbability$*s,c=o.$factor$,f=l/c;i=Math.max(.02,a.$inverseProbability$*f),o.$factor$=f}we(a,i,n)}}},ce=(t,e)=>{const n=be(t);n&&n.$inverseProbability$>e&&we(n,e)},ee,ct=(t,e)=>{if(!t?.length)return;ee=0;let n=e?1-e:.4;if(Array.isArray(t))for(let r=t.length-1;r>=0;r--){const s=t[r];typeof s=="number"?n=1-s/10:ce(s,n)}else ce(t,n)};function ut(t){const e=[],n=r=>{if(r)for(const s of r)e.includes(s.url)||(e.push(s.url),s.imports&&n(s.imports))};return n(t),e}var ft=t=>{const e=Pe(),n=t?.qrls?.map(r=>{const s=r.$refSymbol$||r.$symbol$,o=r.$chunk$,a=e.chunkForSymbol(s,o,r.dev?.file);return a?a[1]:o}).filter(Boolean);return[...new Set(n)]};function dt(t,e,n){const r=e.prefetchStrategy;if(r===null)return[];if(!n?.manifest.bundleGraph)return ft(t);if(typeof r?.symbolsToPrefetch=="function")try{const o=r.symbolsToPrefetch({manifest:n.manifest});return ut(o)}catch(o){console.error("getPrefetchUrls, symbolsToPrefetch()",o)}const s=new Set;for(const o of t?.qrls||[]){const a=M(o.$refSymbol$||o.$symbol$);a&&a.length>=10&&s.add(a)}return[...s]}var mt=(t,e)=>{if(!e?.manifest.bundleGraph)return[...new Set(t)];at();let n=.99;for(const r of t.slice(0,15))ct(r,n),n*=.85;return lt()},te=(t,e)=>{if(e==null)return null;const n=`${t}${e}`.split("/"),r=[];for(const s of n)s===".."&&r.length>0?r.pop():r.push(s);return r.join("/")},pt=(t,e,n,r,s)=>{const o=te(t,e?.manifest?.preloader),a="/"+e?.manifest.bundleGraphAsset;if(o&&a&&n!==!1){const l=typeof n=="object"?{debug:n.debug,preloadProbability:n.ssrPreloadProbability}:void 0;st(e?.manifest.bundleGraph,l);const c=[];n?.debug&&c.push("d:1"),n?.maxIdlePreloads&&c.push(`P:${n.maxIdlePreloads}`),n?.preloadProbability&&c.push(`Q:${n.preloadProbability}`);const f=c.length?`,{${c.join(",")}}`:"",u=`let b=fetch("${a}");import("${o}").then(({l})=>l(${JSON.stringify(t)},b${f}));`;r.push(b("link",{rel:"modulepreload",href:o,nonce:s,crossorigin:"anonymous"}),b("link",{rel:"preload",href:a,as:"fetch",crossorigin:"anonymous",nonce:s}),b("script",{type:"module",async:!0,dangerouslySetInnerHTML:u,nonce:s}))}const i=te(t,e?.manifest.core);i&&r.push(b("link",{rel:"modulepreload",href:i,nonce:s}))},ht=(t,e,n,r,s)=>{if(r.length===0||n===!1)return null;const{ssrPreloads:o,ssrPreloadProbability:a}=bt(typeof n=="boolean"?void 0:n);let i=o;const l=[],c=[],f=e?.manifest.manifestHash;if(i){const d=e?.manifest.preloader,h=e?.manifest.core,g=mt(r,e);let _=4;const L=a*10;for(const v of g)if(typeof v=="string"){if(_<L)break;if(v===d||v===h)continue;if(c.push(v),--i===0)break}else _=v}const u=te(t,f&&e?.manifest.preloader);let y=c.length?`${JSON.stringify(c)}.map((l,e)=>{e=document.createElement('link');e.rel='modulepreload';e.href=${JSON.stringify(t)}+l;document.head.appendChild(e)});`:"";return u&&(y+=`window.addEventListener('load',f=>{f=_=>import("${u}").then(({p})=>p(${JSON.stringify(r)}));try{requestIdleCallback(f,{timeout:2000})}catch(e){setTimeout(f,200)}})`),y&&l.push(b("script",{type:"module","q:type":"preload",async:!0,dangerouslySetInnerHTML:y,nonce:s})),l.length>0?b(ne,{children:l}):null},vt=(t,e,n,r,s)=>{if(n.preloader!==!1){const o=dt(e,n,r);if(o.length>0){const a=ht(t,r,n.preloader,o,n.serverData?.nonce);a&&s.push(a)}}};function bt(t){return{...yt,...t}}var yt={ssrPreloads:7,ssrPreloadProbability:.5,debug:!1,maxIdlePreloads:25,preloadProbability:.35},gt='const t=document,e=window,n=new Set,o=new Set([t]);let r;const s=(t,e)=>Array.from(t.querySelectorAll(e)),a=t=>{const e=[];return o.forEach(n=>e.push(...s(n,t))),e},i=t=>{w(t),s(t,"[q\\\\:shadowroot]").forEach(t=>{const e=t.shadowRoot;e&&i(e)})},c=t=>t&&"function"==typeof t.then,l=(t,e,n=e.type)=>{a("[on"+t+"\\\\:"+n+"]").forEach(o=>{b(o,t,e,n)})},f=e=>{if(void 0===e._qwikjson_){let n=(e===t.documentElement?t.body:e).lastElementChild;for(;n;){if("SCRIPT"===n.tagName&&"qwik/json"===n.getAttribute("type")){e._qwikjson_=JSON.parse(n.textContent.replace(/\\\\x3C(\\/?script)/gi,"<$1"));break}n=n.previousElementSibling}}},p=(t,e)=>new CustomEvent(t,{detail:e}),b=async(e,n,o,r=o.type)=>{const s="on"+n+":"+r;e.hasAttribute("preventdefault:"+r)&&o.preventDefault(),e.hasAttribute("stoppropagation:"+r)&&o.stopPropagation();const a=e._qc_,i=a&&a.li.filter(t=>t[0]===s);if(i&&i.length>0){for(const t of i){const n=t[1].getFn([e,o],()=>e.isConnected)(o,e),r=o.cancelBubble;c(n)&&await n,r&&o.stopPropagation()}return}const l=e.getAttribute(s);if(l){const n=e.closest("[q\\\\:container]"),r=n.getAttribute("q:base"),s=n.getAttribute("q:version")||"unknown",a=n.getAttribute("q:manifest-hash")||"dev",i=new URL(r,t.baseURI);for(const p of l.split("\\n")){const l=new URL(p,i),b=l.href,h=l.hash.replace(/^#?([^?[|]*).*$/,"$1")||"default",q=performance.now();let _,d,y;const w=p.startsWith("#"),g={qBase:r,qManifest:a,qVersion:s,href:b,symbol:h,element:e,reqTime:q};if(w){const e=n.getAttribute("q:instance");_=(t["qFuncs_"+e]||[])[Number.parseInt(h)],_||(d="sync",y=Error("sym:"+h))}else{u("qsymbol",g);const t=l.href.split("#")[0];try{const e=import(t);f(n),_=(await e)[h],_||(d="no-symbol",y=Error(`${h} not in ${t}`))}catch(t){d||(d="async"),y=t}}if(!_){u("qerror",{importError:d,error:y,...g}),console.error(y);break}const m=t.__q_context__;if(e.isConnected)try{t.__q_context__=[e,o,l];const n=_(o,e);c(n)&&await n}catch(t){u("qerror",{error:t,...g})}finally{t.__q_context__=m}}}},u=(e,n)=>{t.dispatchEvent(p(e,n))},h=t=>t.replace(/([A-Z])/g,t=>"-"+t.toLowerCase()),q=async t=>{let e=h(t.type),n=t.target;for(l("-document",t,e);n&&n.getAttribute;){const o=b(n,"",t,e);let r=t.cancelBubble;c(o)&&await o,r||(r=r||t.cancelBubble||n.hasAttribute("stoppropagation:"+t.type)),n=t.bubbles&&!0!==r?n.parentElement:null}},_=t=>{l("-window",t,h(t.type))},d=()=>{const s=t.readyState;if(!r&&("interactive"==s||"complete"==s)&&(o.forEach(i),r=1,u("qinit"),(e.requestIdleCallback??e.setTimeout).bind(e)(()=>u("qidle")),n.has("qvisible"))){const t=a("[on\\\\:qvisible]"),e=new IntersectionObserver(t=>{for(const n of t)n.isIntersecting&&(e.unobserve(n.target),b(n.target,"",p("qvisible",n)))});t.forEach(t=>e.observe(t))}},y=(t,e,n,o=!1)=>{t.addEventListener(e,n,{capture:o,passive:!1})},w=(...t)=>{for(const r of t)"string"==typeof r?n.has(r)||(o.forEach(t=>y(t,r,q,!0)),y(e,r,_,!0),n.add(r)):o.has(r)||(n.forEach(t=>y(r,t,q,!0)),o.add(r))};if(!("__q_context__"in t)){t.__q_context__=0;const r=e.qwikevents;r&&(Array.isArray(r)?w(...r):w("click","input")),e.qwikevents={events:n,roots:o,push:w},y(t,"readystatechange",d),d()}',wt=`const doc = document;
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
}`;function _t(t={}){return t.debug?wt:gt}function V(){if(typeof performance>"u")return()=>0;const t=performance.now();return()=>(performance.now()-t)/1e6}function qt(t){let e=t.base;return typeof t.base=="function"&&(e=t.base(t)),typeof e=="string"?(e.endsWith("/")||(e+="/"),e):"/build/"}var $t="<!DOCTYPE html>";async function St(t,e){let n=e.stream,r=0,s=0,o=0,a=0,i="",l;const c=e.streaming?.inOrder??{strategy:"auto",maximunInitialChunk:5e4,maximunChunk:3e4},f=e.containerTagName??"html",u=e.containerAttributes??{},m=n,y=V(),d=qt(e),h=Et(e.manifest),g=e.serverData?.nonce;function _(){i&&(m.write(i),i="",r=0,o++,o===1&&(a=y()))}function L(p){const w=p.length;r+=w,s+=w,i+=p}switch(c.strategy){case"disabled":n={write:L};break;case"direct":n=m;break;case"auto":let p=0,w=!1;const oe=c.maximunChunk??0,W=c.maximunInitialChunk??0;n={write(j){j==="<!--qkssr-f-->"?w||(w=!0):j==="<!--qkssr-pu-->"?p++:j==="<!--qkssr-po-->"?p--:L(j),p===0&&(w||r>=(o===0?W:oe))&&(w=!1,_())}};break}f==="html"?n.write($t):n.write("<!--cq-->"),h||console.warn("Missing client manifest, loading symbols in the client might 404. Please ensure the client build has run and generated the manifest for the server build."),await Ve(e,h);const v=h?.manifest.injections,E=v?v.map(p=>b(p.tag,p.attributes??{})):[];let q=e.qwikLoader?typeof e.qwikLoader=="object"?e.qwikLoader.include==="never"?2:0:e.qwikLoader==="inline"?1:e.qwikLoader==="never"?2:0:0;const T=h?.manifest.qwikLoader;if(q===0&&!T&&(q=1),q===0)E.unshift(b("link",{rel:"modulepreload",href:`${d}${T}`,nonce:g}),b("script",{type:"module",async:!0,src:`${d}${T}`,nonce:g}));else if(q===1){const p=_t({debug:e.debug});E.unshift(b("script",{id:"qwikloader",type:"module",async:!0,nonce:g,dangerouslySetInnerHTML:p}))}pt(d,h,e.preloader,E,g);const U=V(),G=[];let D=0,P=0;await Se(t,{stream:n,containerTagName:f,containerAttributes:u,serverData:e.serverData,base:d,beforeContent:E,beforeClose:async(p,w,oe,W)=>{D=U();const j=V();l=await Ee(p,w,void 0,W);const N=[];vt(d,l,e,h,N);const $e=JSON.stringify(l.state,void 0,void 0);if(N.push(b("script",{type:"qwik/json",dangerouslySetInnerHTML:Pt($e),nonce:g})),l.funcs.length>0){const A=u[Je];N.push(b("script",{"q:func":"qwik/json",dangerouslySetInnerHTML:Lt(A,l.funcs),nonce:g}))}const ae=Array.from(w.$events$,A=>JSON.stringify(A));if(ae.length>0){const A=`(window.qwikevents||(window.qwikevents=[])).push(${ae.join(",")})`;N.push(b("script",{dangerouslySetInnerHTML:A,nonce:g}))}return xt(G,p),P=j(),b(ne,{children:N})},manifestHash:h?.manifest.manifestHash||"dev"+kt()}),f!=="html"&&n.write("<!--/cq-->"),_();const H=l.resources.some(p=>p._cache!==1/0);return{prefetchResources:void 0,snapshotResult:l,flushes:o,manifest:h?.manifest,size:s,isStatic:!H,timing:{render:D,snapshot:P,firstFlush:a}}}function kt(){return Math.random().toString(36).slice(2)}function Et(t){const e=t?{...le,...t}:le;if(!e||"mapper"in e)return e;if(e.mapping){const n={};return Object.entries(e.mapping).forEach(([r,s])=>{n[M(r)]=[r,s]}),{mapper:n,manifest:e,injections:e.injections||[]}}}var Pt=t=>t.replace(/<(\/?script)/gi,"\\x3C$1");function xt(t,e){for(const n of e){const r=n.$componentQrl$?.getSymbol();r&&!t.includes(r)&&t.push(r)}}var Ct='document["qFuncs_HASH"]=';function Lt(t,e){return Ct.replace("HASH",t)+`[${e.join(`,
`)}]`}const jt=k("qc-s"),Nt=k("qc-c"),_e=k("qc-ic"),Rt=k("qc-h"),At=k("qc-l"),It=k("qc-n"),Tt=k("qc-a"),Dt=k("qc-p"),Bt=Te(De("s_VEjF9hVDeQA")),Ot=()=>{if(!se("containerAttributes"))throw new Error("PrefetchServiceWorker component must be rendered on the server.");xe();const e=Ce(_e);if(e.value&&e.value.length>0){const n=e.value.length;let r=null;for(let s=n-1;s>=0;s--)e.value[s].default&&(r=R(e.value[s].default,{children:r},1,"3y_0"));return R(ne,{children:[r,S("script",{"document:onQCInit$":Bt,"document:onQInit$":Le(()=>{((s,o)=>{if(!s._qcs&&o.scrollRestoration==="manual"){s._qcs=!0;const a=o.state?._qCityScroll;a&&s.scrollTo(a.x,a.y),document.dispatchEvent(new Event("qcinit"))}})(window,history)},'()=>{((w,h)=>{if(!w._qcs&&h.scrollRestoration==="manual"){w._qcs=true;const s=h.state?._qCityScroll;if(s){w.scrollTo(s.x,s.y);}document.dispatchEvent(new Event("qcinit"));}})(window,history);}')},null,null,2,"3y_1")]},1,"3y_2")}return je},Qt=re(C(Ot,"s_Lll8YBOGiFk")),Mt=(t,e)=>new URL(t,e.href),ue=(t,e)=>t.origin===e.origin,fe=t=>t.endsWith("/")?t:t+"/",Ft=({pathname:t},{pathname:e})=>{const n=Math.abs(t.length-e.length);return n===0?t===e:n===1&&fe(t)===fe(e)},zt=(t,e)=>t.search===e.search,z=(t,e)=>zt(t,e)&&Ft(t,e),Ut=t=>t&&typeof t.then=="function",Gt=(t,e,n,r)=>{const s=qe(),a={head:s,withLocale:i=>ie(r,i),resolveValue:i=>{const l=i.__id;if(i.__brand==="server_loader"&&!(l in t.loaders))throw new Error("You can not get the returned data of a loader that has not been executed for this request.");const c=t.loaders[l];if(Ut(c))throw new Error("Loaders returning a promise can not be resolved for the head function.");return c},...e};for(let i=n.length-1;i>=0;i--){const l=n[i]&&n[i].head;l&&(typeof l=="function"?de(s,ie(r,()=>l(a))):typeof l=="object"&&de(s,l))}return a.head},de=(t,e)=>{typeof e.title=="string"&&(t.title=e.title),O(t.meta,e.meta),O(t.links,e.links),O(t.styles,e.styles),O(t.scripts,e.scripts),Object.assign(t.frontmatter,e.frontmatter)},O=(t,e)=>{if(Array.isArray(e))for(const n of e){if(typeof n.key=="string"){const r=t.findIndex(s=>s.key===n.key);if(r>-1){t[r]=n;continue}}t.push(n)}},qe=()=>({title:"",meta:[],links:[],styles:[],scripts:[],frontmatter:{}}),Ht=()=>pe(se("qwikcity")),me={},Q={navCount:0},Wt=":root{view-transition-name:none}",Yt=t=>{},Vt=async(t,e)=>{const[n,r,s,o]=he(),{type:a="link",forceReload:i=t===void 0,replaceState:l=!1,scroll:c=!0}=typeof e=="object"?e:{forceReload:e};Q.navCount++;const f=s.value.dest,u=t===void 0?f:typeof t=="number"?t:Mt(t,o.url);if(me.$cbs$&&(i||typeof u=="number"||!z(u,f)||!ue(u,f))){const m=Q.navCount,y=await Promise.all([...me.$cbs$.values()].map(d=>d(u)));if(m!==Q.navCount||y.some(Boolean)){m===Q.navCount&&a==="popstate"&&history.pushState(null,"",f);return}}if(typeof u!="number"&&ue(u,f)){if(!i&&z(u,f)){if(u.href!==o.url.href){const m=new URL(u.href);s.value.dest=m,o.url=m}return}return s.value={type:a,dest:u,forceReload:i,replaceState:l,scroll:c},n.value=void 0,o.isNavigating=!0,new Promise(m=>{r.r=m})}},Jt=({track:t})=>{const[e,n,r,s,o,a,i,l,c,f,u]=he();async function m(){const d=t(f),h=t(e),g=Be(""),_=u.url,L=h?"form":d.type;d.replaceState;let v,E,q=null;if(v=new URL(d.dest,u.url),q=o.loadedRoute,E=o.response,q){const[T,U,G,D]=q,P=G,H=P[P.length-1];d.dest.search&&z(v,_)&&(v.search=d.dest.search),z(v,_)||(u.prevUrl=_),u.url=v,u.params={...U},f.untrackedValue={type:L,dest:v};const x=Gt(E,u,P,g);n.headings=H.headings,n.menu=D,r.value=pe(P),s.links=x.links,s.meta=x.meta,s.styles=x.styles,s.scripts=x.scripts,s.title=x.title,s.frontmatter=x.frontmatter}}return m()},Kt=t=>{Ne(C(Wt,"s_Lxrv8YLzdZ0"));const e=Ht();if(!e?.params)throw new Error("Missing Qwik City Env Data for help visit https://github.com/QwikDev/qwik/issues/6237");const n=se("url");if(!n)throw new Error("Missing Qwik URL Env Data");if(e.ev.originalUrl.pathname!==e.ev.url.pathname)throw new Error('enableRequestRewrite is an experimental feature and is not enabled. Please enable the feature flag by adding `experimental: ["enableRequestRewrite"]` to your qwikVite plugin options.');const r=new URL(n),s=B({url:r,params:e.params,isNavigating:!1,prevUrl:void 0},{deep:!1}),o={},a=Re(B(e.response.loaders,{deep:!1})),i=Y({type:"initial",dest:r,forceReload:!1,replaceState:!1,scroll:!0}),l=B(qe),c=B({headings:void 0,menu:void 0}),f=Y(),u=e.response.action,m=u?e.response.loaders[u]:void 0,y=Y(m?{id:u,data:e.response.formData,output:{result:m,status:e.response.status}}:void 0),d=C(Yt,"s_zSebXdB1Gtg"),h=C(Vt,"s_7G9n09J2yfY",[y,o,i,s]);return $(Nt,c),$(_e,f),$(Rt,l),$(At,s),$(It,h),$(jt,a),$(Tt,y),$(Dt,d),Ae(C(Jt,"s_NgcQ2aTsNiM",[y,c,f,l,e,h,a,o,t,i,s])),R(Ie,null,3,"3y_3")},Xt=re(C(Kt,"s_WFrg00ywzNw")),Zt=()=>R(Xt,{children:[S("head",null,null,[S("meta",null,{charset:"utf-8"},null,3,null),S("meta",null,{name:"viewport",content:"width=device-width, initial-scale=1"},null,3,null),S("meta",null,{name:"color-scheme",content:"light dark"},null,3,null),S("title",null,null,"Scriptorium",3,null),S("link",null,{rel:"icon",href:"/favicon.svg",type:"image/svg+xml"},null,3,null)],3,null),S("body",null,null,R(Qt,null,3,"0Q_0"),1,null)]},1,"0Q_1"),en=re(C(Zt,"s_l0HhW2KLzHE"));function nn(t){return St(R(en,null,3,"Wr_0"),{...t,prefetchStrategy:null,containerAttributes:{lang:"en"}})}export{nn as default};
