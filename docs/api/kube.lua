---@meta kube
-- What require("kube") returns. See scriptorium.lua.

---Functions for Kubernetes quantities and pods, which Karmada's resource interpreters call. It is no global.
---@class kube
local kube = {}

---Adds quantities such as "100m" or "64Mi". nil counts as 0.
---@param ... string?
---@return string
function kube.resourceAdd(...) end

---@class kube.nodeClaim
---@field hardNodeAffinity? table the required node affinity
---@field nodeSelector? table<string, string>
---@field tolerations? table[]

---@class kube.requirements
---@field resourceRequest? table<string, string> quantities by resource: the requests of all containers, or their limits where there is no request; at least those of each init container; and the overhead
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

---Returns the ConfigMaps, Secrets, ServiceAccounts and PersistentVolumeClaims that the template names.
---@param template table
---@param namespace? string "default" unless given
---@return kube.dependency[]
function kube.getPodDependencies(template, namespace) end

return kube
