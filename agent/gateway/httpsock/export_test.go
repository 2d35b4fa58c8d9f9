package httpsock

// LongCall is the time from which on a client that goes away ends its call.
const LongCall = longCall
