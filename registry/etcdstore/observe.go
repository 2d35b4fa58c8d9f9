package etcdstore

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// observer tells each attempt of a request to etcd.
type observer func(method string, took time.Duration, failed bool)

func (o observer) configure(cfg *clientv3.Config) {
	if o != nil {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(o.intercept))
	}
}

func (o observer) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	began := time.Now()
	err := invoke(ctx, method, req, reply, cc, opts...)
	if !errors.Is(ctx.Err(), context.Canceled) { // then nobody waited for etcd
		o(method, time.Since(began), failed(err))
	}
	return err
}

// failed reports whether etcd gave no answer. That something was compacted, or is not there, is one.
func failed(err error) bool {
	switch status.Code(err) {
	case codes.OK, codes.Canceled, codes.OutOfRange, codes.NotFound, codes.FailedPrecondition, codes.InvalidArgument:
		return false
	}
	return true
}
