package local

// EtcdEndpoint is where etcd is.
func (s *Stack) EtcdEndpoint() string { return s.etcd.Endpoint() }
