package lua_test
import ("testing";"os";"strings";"fmt")
func TestZZ(t *testing.T) {
 b, _ := os.ReadFile("/tmp/zz.lua")
 d := newDiffer(t)
 for _, body := range strings.Split(strings.TrimSpace(string(b)), "\n") { 
 src := body; if !strings.HasPrefix(body, "do ") { src = "return " + body }
 func() { 
 o := d.outcomes(t, []string{src}); r := d.reference(t, []string{src}); m := ""; if o[0] == r[0] { m = "SAME" } ; fmt.Printf("%s | %s | %s %s\n", body, r, o, m) }() }
}
