function ReviseReplica(obj, desiredReplica)
  obj.spec.replicas = desiredReplica
  if obj.spec.parallelism ~= nil then
    obj.spec.parallelism = math.min(obj.spec.parallelism, desiredReplica)
  end
  return obj
end
