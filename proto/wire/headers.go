package wire

// MaxHeaderBytes bounds the headers of one call on each gRPC server, as HTTP/2 counts them:
// 32 bytes a field, and its name and value. A compressed field can take one byte on the wire,
// and gRPC keeps the headers of a call before it knows the caller. gRPC's own bound is 16 MiB.
const MaxHeaderBytes = 16 << 10
