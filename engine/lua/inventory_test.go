package lua

import (
	"slices"
	"strings"
	"testing"

	glua "github.com/yuin/gopher-lua"
)

// reviewed is every name within reach of a script. Before a name is added here,
// somebody has asked of it: what does it cost, is that charged, is its result
// bounded, can it change what outlives the call, can it reach the outside?
const reviewed = `
_VERSION assert error getmetatable ipairs next pairs pcall rawequal rawget rawset
select setmetatable tonumber tostring type unpack xpcall
json json.array json.decode json.encode json.null
math math.abs math.acos math.asin math.atan math.atan2 math.ceil math.cos math.cosh math.deg math.exp math.floor
math.fmod math.frexp math.huge math.ldexp math.log math.log10 math.max math.min math.mod math.modf math.pi math.pow
math.rad math.random math.randomseed math.sin math.sinh math.sqrt math.tan math.tanh
os os.clock os.date os.difftime os.time
string string.byte string.char string.find string.format string.gmatch string.gsub string.len string.lower
string.match string.rep string.reverse string.sub string.upper
table table.concat table.getn table.insert table.maxn table.remove table.sort
`

func TestInventory(t *testing.T) {
	var found []string
	var walk func(prefix string, members *glua.LTable)
	walk = func(prefix string, members *glua.LTable) {
		members.ForEach(func(k, v glua.LValue) {
			name := prefix + k.String()
			found = append(found, name)
			switch v := v.(type) {
			case *glua.LUserData:
				if lib, ok := v.Value.(library); ok {
					walk(name+".", lib.members)
				}
			case *glua.LTable:
				t.Errorf("%s is a table, which a script can change", name)
			}
			if strings.HasPrefix(name, "string.") && sandbox().stringMeta.RawGetString("__index").(*glua.LTable).RawGet(k) != v {
				t.Errorf("%s is not what strings have as a method", name)
			}
		})
	}
	walk("", sandbox().base)
	want := strings.Fields(reviewed)
	slices.Sort(want)
	slices.Sort(found)
	for _, name := range found {
		if _, ok := slices.BinarySearch(want, name); !ok {
			t.Errorf("%s is within reach and not reviewed", name)
		}
	}
	for _, name := range want {
		if _, ok := slices.BinarySearch(found, name); !ok {
			t.Errorf("%s is missing", name)
		}
	}
}

// TestProtected makes sure that what states share cannot be reached for writing.
func TestProtected(t *testing.T) {
	b := sandbox()
	metas := []glua.LValue{b.envMeta, b.stringMeta, b.null.Metatable}
	b.base.ForEach(func(_, v glua.LValue) {
		if ud, ok := v.(*glua.LUserData); ok {
			metas = append(metas, ud.Metatable)
		}
	})
	for _, meta := range metas {
		if meta.(*glua.LTable).RawGetString("__metatable") != glua.LFalse {
			t.Errorf("metatable %v is not protected", meta)
		}
	}
	if b.arrayMeta.Metatable != glua.LNil || b.arrayMeta.Len() != 0 {
		t.Error("the array marker is not empty")
	}
}
