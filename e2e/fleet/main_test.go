package fleet

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"lockstep/e2e/harness"
)

func TestMain(m *testing.M) {
	zerolog.SetGlobalLevel(zerolog.Disabled) // of the proxies
	toxics.Register("readdress", new(readdress))
	redis.SetLogger(silence{}) // servers that do not answer are what is tested here
	os.Exit(harness.Main(m, filepath.Join("..", "..")))
}

// silence is a logger.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// rounds is how often a race is run: few times usually, many with LOCKSTEP_SOAK.
func rounds(t *testing.T, usual int) int {
	t.Helper()
	text := os.Getenv("LOCKSTEP_SOAK")
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("LOCKSTEP_SOAK is %q: want a number of rounds", text)
	}
	return max(n, usual)
}
