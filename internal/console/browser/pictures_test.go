package browser_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/console/browser"
)

// pictures is where tests write pictures of what they see, for the documentation.
var pictures = flag.String("browser.pictures", "", "write pictures of the pages into this `folder` (make console-pictures)")

// maxPicture is how large a picture of the documentation is at most.
const maxPicture = 200 << 10

// shoot takes a picture in light and in dark, if the pictures are wanted.
func shoot(t *testing.T, p *browser.Page, name string) {
	t.Helper()
	if *pictures == "" {
		return
	}
	for _, scheme := range []string{"light", "dark"} {
		p.Scheme(scheme)
		p.Wait("the end of all transitions", "document.getAnimations().length === 0")
		png := p.Picture()
		if len(png) > maxPicture {
			t.Errorf("%s in %s has %d bytes, more than %d", name, scheme, len(png), maxPicture)
		}
		if err := os.WriteFile(filepath.Join(*pictures, name+"-"+scheme+".png"), png, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.Scheme("light")
}
