package wire

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// FromError returns the message for err, without its stack; nil for nil.
func FromError(err error) *scriptv1.Error {
	if err == nil {
		return nil
	}
	e := script.AsError(err)
	return &scriptv1.Error{
		Kind:    string(e.Kind),
		Field:   e.Field,
		Message: e.Message,
		Line:    int32(e.Line),
		Column:  int32(e.Column),
	}
}

// FromCallError returns the message for the error of a call, with its stack; nil for nil.
func FromCallError(err error) *scriptv1.Error {
	m := FromError(err)
	if m == nil {
		return nil
	}
	for _, f := range script.AsError(err).Stack {
		m.Stack = append(m.Stack, &scriptv1.Frame{Function: f.Function, Line: int32(f.Line)})
	}
	return m
}

// ToError reads m; nil for nil. The stack keeps its bounds, whoever sent it.
func ToError(m *scriptv1.Error) *script.Error {
	if m == nil {
		return nil
	}
	e := &script.Error{
		Kind:    script.Kind(m.GetKind()),
		Field:   m.GetField(),
		Message: m.GetMessage(),
		Line:    int(m.GetLine()),
		Column:  int(m.GetColumn()),
	}
	for _, f := range m.GetStack()[:min(len(m.GetStack()), script.MaxFrames)] {
		name := f.GetFunction()
		name = strings.ToValidUTF8(name[:min(len(name), script.MaxFunctionBytes)], "")
		e.Stack = append(e.Stack, script.Frame{Function: name, Line: int(f.GetLine())})
	}
	return e
}

// codeOf maps kinds to gRPC codes (docs/protocol.md has the table).
var codeOf = map[script.Kind]codes.Code{
	script.NotFound:    codes.NotFound,
	script.Disabled:    codes.FailedPrecondition,
	script.Script:      codes.Aborted,
	script.Timeout:     codes.DeadlineExceeded,
	script.Limit:       codes.ResourceExhausted,
	script.Overloaded:  codes.Unavailable,
	script.Denied:      codes.PermissionDenied,
	script.Invalid:     codes.InvalidArgument,
	script.Conflict:    codes.FailedPrecondition,
	script.Unavailable: codes.Unavailable,
	script.Internal:    codes.Internal,
}

// ToStatus returns the gRPC status error for err, with a
// scriptorium.script.v1.Error detail. nil stays nil, an error that is a status
// already stays as it is, and a context's error becomes codes.Canceled or
// codes.DeadlineExceeded.
func ToStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*script.Error](err); !ok {
		if _, ok := status.FromError(err); ok {
			return err
		}
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return status.FromContextError(err).Err()
		}
	}
	e := script.AsError(err)
	code, ok := codeOf[e.Kind]
	if !ok {
		code = codes.Unknown
	}
	st, detailErr := status.New(code, e.Error()).WithDetails(FromCallError(e))
	if detailErr != nil {
		return status.Error(code, e.Error())
	}
	return st.Err()
}

// FromStatus returns the *script.Error that a gRPC call's error carries. One
// without a detail gets its kind from the code: what never reached a server is
// Unavailable, and one whose context ended is a Timeout with the context's error
// as its cause. nil stays nil.
func FromStatus(err error) error {
	if err == nil {
		return nil
	}
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	for _, d := range st.Details() {
		if m, ok := d.(*scriptv1.Error); ok {
			e := ToError(m)
			e.Err = err
			return e
		}
	}
	kind, cause := script.Internal, err
	switch st.Code() {
	case codes.Unavailable:
		kind = script.Unavailable
	case codes.DeadlineExceeded:
		kind, cause = script.Timeout, context.DeadlineExceeded
	case codes.Canceled:
		kind, cause = script.Timeout, context.Canceled
	case codes.ResourceExhausted:
		kind = script.Limit
	case codes.InvalidArgument, codes.OutOfRange, codes.Unimplemented:
		kind = script.Invalid
	case codes.NotFound:
		kind = script.NotFound
	case codes.PermissionDenied, codes.Unauthenticated:
		kind = script.Denied
	}
	return &script.Error{Kind: kind, Message: st.Message(), Err: cause}
}
