package store

// Disk is what tests put faults into.
type Disk = disk

// OSDisk is the one without faults.
type OSDisk = osDisk

// OpenOn opens a store on another disk.
func OpenOn(dir string, d Disk) (*Store, *Loaded, error) { return open(dir, d) }

// MaxCorrupt is how many corrupt files are kept.
const MaxCorrupt = maxCorrupt

var (
	EncodeRecord = encodeRecord
	DecodeRecord = decodeRecord
)
