package decisionlog

import "fmt"

// Rejected is the error of a Write whose sink accepted all other records, and will never accept these. Do not retry.
type Rejected struct {
	Records int   // at least 1
	Err     error // why the last of them was rejected
}

// Error returns the number of records, and why they were rejected.
func (r *Rejected) Error() string {
	return fmt.Sprintf("%d records were rejected: %v", r.Records, r.Err)
}

// Unwrap returns why.
func (r *Rejected) Unwrap() error { return r.Err }
