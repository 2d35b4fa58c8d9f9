package decisionlog

import "fmt"

// Rejected is the error of a Write whose sink has accepted all records but these, and will never
// accept them: to write them again is of no use.
type Rejected struct {
	Records int   // at least 1
	Err     error // why the last of them was rejected
}

// Error says how many, and why.
func (r *Rejected) Error() string {
	return fmt.Sprintf("%d records were rejected: %v", r.Records, r.Err)
}

// Unwrap returns why.
func (r *Rejected) Unwrap() error { return r.Err }
