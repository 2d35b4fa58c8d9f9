// Chooses the upstream of a request, by the path and a header: see ../../../README.md.
import { Decision, Json, Request, config, kvGet, onRequest } from "scriptorium-sdk";
export { handle, scriptorium_alloc } from "scriptorium-sdk";

onRequest((request: Request): Decision | null => {
  const upstream = choose(request, config());
  // A value of the tenant moves an upstream without a new version.
  const moved = kvGet("upstreams/" + upstream);
  return Decision.allow().upstream(moved !== null ? moved : upstream);
});

// The first prefix that fits wins, so the longer ones come first in the config.
function choose(request: Request, config: Json): string {
  const path = request.path;
  const routes = config.get("routes").items();
  for (let i = 0; i < routes.length; i++) {
    if (path.startsWith(routes[i].get("prefix").text())) return routes[i].get("upstream").text();
  }
  if (request.header("x-beta") == "yes") return config.get("beta").text();
  return config.get("default").text();
}
