package etcdstore

import (
	"context"
)

// Space is how much of its quota an etcd uses.
type Space struct {
	Used  int64 // bytes of the database's file
	Quota int64 // 0: etcd does not say, because it is older than 3.6
}

// fraction is what is used; 0 if etcd does not say.
func (s Space) fraction() float64 {
	if s.Quota <= 0 {
		return 0
	}
	return float64(s.Used) / float64(s.Quota)
}

// Space returns how full the fullest member is. Each member has a file of its own, and the
// first one that is full makes all of them refuse writes.
func (s *Store) Space(ctx context.Context) (fullest Space, err error) {
	for _, endpoint := range s.client.Endpoints() {
		status, statusErr := s.client.Status(ctx, endpoint)
		if statusErr != nil {
			err = s.failure(ctx, "ask etcd for its size", statusErr)
			continue
		}
		space := Space{Used: status.DbSize, Quota: status.DbSizeQuota}
		if fullest == (Space{}) || space.fraction() > fullest.fraction() {
			fullest = space
		}
	}
	if fullest != (Space{}) {
		return fullest, nil
	}
	return Space{}, err
}
