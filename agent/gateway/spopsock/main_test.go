package spopsock

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
)

func TestMain(m *testing.M) { gatewaytest.Main(m) }
