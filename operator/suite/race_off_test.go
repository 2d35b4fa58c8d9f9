//go:build !race

package suite_test

import "time"

// thousand is how many LuaScripts come at once.
const thousand = 1000

// thousandWithin is how long they may take to converge. The time is absolute, as it is what
// the operator is to keep on two cores, however busy a test finds them.
const thousandWithin = time.Minute
