/** ownerText names the owner of a script, and what that means for a change here. */
export function ownerText(owner: string): string {
  const object = /^(luascript|script)\/(.*)$/.exec(owner);
  if (object) {
    const kind = object[1] === 'luascript' ? 'LuaScript' : 'Script';
    return `The Kubernetes object ${kind} ${object[2]} owns this script. Change it there, or in the repository that it comes from: the operator replaces what you publish here.`;
  }
  if (owner.startsWith('project:')) {
    return `The project ${owner.slice('project:'.length)} owns this script. Change its files, and apply the project: the next apply replaces what you publish here.`;
  }
  return `${owner} owns this script. Its next publish replaces what you publish here.`;
}
