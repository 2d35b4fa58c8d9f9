package budget_test

import (
	"os"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/needs"
)

func TestMain(m *testing.M) { os.Exit(needs.OneProcessor(m)) }
