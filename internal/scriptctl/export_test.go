package scriptctl

// ErrTimeUp, as the cause of the context's end, ends a --wait as its timeout does.
var ErrTimeUp = errTimeUp
