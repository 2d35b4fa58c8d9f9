---@meta kube
-- What require("kube") returns, for the Lua language server.

---@class kube
local kube = {}

---Adds quantities such as "100m" or "64Mi". nil counts as 0.
---@param ... string?
---@return string
function kube.resourceAdd(...) end

---@class kube.nodeClaim
---@field hardNodeAffinity? table
---@field nodeSelector? table<string, string>
---@field tolerations? table[]

---@class kube.requirements
---@field resourceRequest? table<string, string> quantities by the names of resources
---@field nodeClaim? kube.nodeClaim
---@field priorityClassName? string

---Returns what a pod of the template requires of a node.
---@param template table
---@return kube.requirements
function kube.accuratePodRequirements(template) end

---@class kube.dependency
---@field apiVersion string
---@field kind string
---@field namespace string
---@field name string

---Returns the objects that the template names, sorted by kind and name.
---@param template table
---@param namespace? string "default" unless given
---@return kube.dependency[]
function kube.getPodDependencies(template, namespace) end

return kube
