package instrument

// Bounds of modules. They keep what the runtime needs to compile and instantiate a module a small multiple of its size.
const (
	MaxModuleBytes   = 4 << 20
	MaxTypes         = 10_000
	MaxParams        = 128 // of a type
	MaxResults       = 64  // of a type
	MaxImports       = 512
	MaxFunctions     = 50_000
	MaxTables        = 16
	MaxTableElements = 1 << 16 // of all tables together
	MaxGlobals       = 2_000
	// MaxMutableGlobals: the runtime loads all of them after each call, and drops the loads that nobody needs.
	MaxMutableGlobals = 128
	MaxExports        = 10_000
	MaxSegments       = 10_000  // of elements
	MaxDataSegments   = 100_000 // Go leaves out runs of zeros
	MaxElements       = 1 << 17 // in all segments together
	MaxNameBytes      = 1 << 10 // of an import or an export
	MaxLocals         = 1_000   // of a function, parameters included
	MaxFunctionBytes  = 256 << 10
	MaxNesting        = 10_000 // of blocks
	MaxBrTable        = 25_000
	// maxNamesBytes bounds the names of functions that are kept; the rest is dropped.
	// A module costs the runtime's compiler about work units of up to a microsecond; Go's compiler makes modules of 2
	// units a byte.
	baseWork             = 1 << 20
	workPerByte          = 4
	maxNamesBytes        = 512 << 10
	maxFunctionNameBytes = 200
)

const (
	// uncheckedCost is how much straight code charges before it tests gas.
	uncheckedCost = 4096
	// callCost is what a call adds to that: a function without calls that costs less does not test gas.
	callCost = 256
	// leafFrame is how large the frame of a function without calls may be so that it need not be counted.
	leafFrame = 16 << 10
)
