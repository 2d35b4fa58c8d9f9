package scrape_test

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/deploy/observability/dashboards"
	"github.com/scriptorium-dev/scriptorium/deploy/observability/picture"
)

// mostOfAPicture is what a page can show at once.
const mostOfAPicture = 150 << 10

// images is the folder of the pictures on the pages.
const images = "../../../docs/images"

// TestPictures draws each dashboard from a run. With -scrape.pictures and -scrape.for it replaces those of the pages.
func TestPictures(t *testing.T) {
	folder := *picturesDir
	if folder == "" {
		folder = t.TempDir()
	}
	s := start(t, time.Second)
	s.furnish(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := time.Now()
	wait := s.work(ctx, t)
	defer func() { cancel(); wait() }()
	s.scraped(t, 5)
	<-time.NewTimer(*picturesFor).C
	for _, d := range dashboards.All() {
		drawn, err := picture.Draw(ctx, d, picture.Config{Prometheus: s.prometheus, From: began, To: time.Now(), Rate: "15s"})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(texts(t, drawn), d.Rows[0].Panels[0].Title) {
			t.Errorf("the picture of %s lacks its first panel", d.Name)
		}
		if err := os.WriteFile(file(folder, d), drawn, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func file(dir string, d dashboards.Dashboard) string {
	return filepath.Join(dir, "dashboard-"+d.Name+".svg")
}

// TestPicturesAreCurrent: the pages' picture of each dashboard has the rows and panels that it has now.
func TestPicturesAreCurrent(t *testing.T) {
	for _, d := range dashboards.All() {
		text, err := os.ReadFile(file(images, d))
		if err != nil {
			t.Error(err)
			continue
		}
		if len(text) > mostOfAPicture {
			t.Errorf("%s has %d bytes, more than %d", d.Name, len(text), mostOfAPicture)
		}
		shown := texts(t, text)
		for _, row := range d.Rows {
			if !strings.Contains(shown, row.Title) {
				continue // it had no data
			}
			for _, p := range row.Panels {
				if title := []rune(p.Title); !strings.Contains(shown, string(title[:min(len(title), 20)])) {
					t.Errorf("the picture of %s has no panel %q: run this test with -scrape.pictures %s -scrape.for 10m", d.Name, p.Title, images)
				}
			}
		}
	}
}

// texts are those of an SVG.
func texts(t *testing.T, svg []byte) string {
	t.Helper()
	var all strings.Builder
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := token.(xml.CharData); ok {
			all.Write(text)
			all.WriteByte('\n')
		}
	}
}
