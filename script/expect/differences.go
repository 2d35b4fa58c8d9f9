package expect

import "github.com/scriptorium-dev/scriptorium/script/jsonvalue"

// Differences returns at most so many parts of a result that are not as expected, in the order of their pointers; more
// says that there are others. From is what is expected, and To what there is. Both values are as jsonvalue.Decode returns
// them.
func Differences(want, got any, most int) (parts []jsonvalue.Difference, more bool) {
	return jsonvalue.Differences(want, named(want, got), most)
}

// named returns what is expected to be there of the result: without members of objects that are not named, and with
// null for named members that are missing.
func named(want, got any) any {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return got
		}
		some := make(map[string]any, len(w))
		for name, part := range w {
			if found, there := g[name]; there || part == nil {
				some[name] = named(part, found)
			}
		}
		return some
	case []any:
		g, ok := got.([]any)
		if !ok {
			return got
		}
		list := make([]any, len(g))
		for i := range g {
			if list[i] = g[i]; i < len(w) {
				list[i] = named(w[i], g[i])
			}
		}
		return list
	}
	return got
}
