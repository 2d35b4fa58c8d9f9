package decisionlog

import "fmt"

// Refused is the error of a Write whose sink has accepted all records but these, and will never
// accept them: to write them again is of no use.
type Refused struct {
	Records int   // at least 1
	Err     error // why the last of them was refused
}

// Error says how many, and why.
func (r *Refused) Error() string {
	return fmt.Sprintf("%d records were refused: %v", r.Records, r.Err)
}

// Unwrap returns why.
func (r *Refused) Unwrap() error { return r.Err }
