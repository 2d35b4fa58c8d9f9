package diagnose

import "github.com/scriptorium-dev/scriptorium/engine/lua/vm"

// Nearest returns the key of the table that differs least from the name; "" if none is similar.
func Nearest(name string, table *vm.LTable) (near string) {
	least := 0
	table.ForEach(func(k, _ vm.LValue) {
		key := k.String()
		if !Similar(name, key) {
			return
		}
		if d := distance(name, key); near == "" || d < least || d == least && key < near {
			least, near = d, key
		}
	})
	return near
}

// Similar reports whether one of the names may be the other one, misspelled.
func Similar(a, b string) bool {
	const longest = 40
	if a == b || len(a) > longest || len(b) > longest {
		return false
	}
	return distance(a, b) <= min(2, len(a)/3)
}

// distance returns how many letters have to be inserted, removed, replaced or swapped with their neighbor.
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, above, row := rows[0], rows[1], rows[2]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		rows = [3][]int{above, row, before}
	}
	return rows[1][len(b)]
}
