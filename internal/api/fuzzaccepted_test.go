package api_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste/internal/store/postgres"
	"posthaste/internal/store/postgres/pgtest"
)

// FuzzAcceptedRequests makes random requests, of which many have a text where a store makes a
// key, a row or an index term of it: the text, or random letters, of some size. Whatever
// the server accepts, it does not fail, and the store opens afterwards and is whole (contract,
// decision 35).
func FuzzAcceptedRequests(f *testing.F) {
	if testing.Short() {
		f.Skip("sequential: nothing for the race detector")
	}
	addAcceptedSeeds(func(seed uint64, text string, size uint16) { f.Add(seed, text, size) })
	f.Fuzz(func(t *testing.T, seed uint64, text string, size uint16) {
		disk := vfs.NewMem()
		anyRequests(t, diskOf(disk), seed, text, int(size))
		checkWhole(t, disk)
	})
}

// TestAcceptedRequestsOnPostgres is FuzzAcceptedRequests for a few inputs, on PostgreSQL.
func TestAcceptedRequestsOnPostgres(t *testing.T) {
	if testing.Short() {
		t.Skip("sequential: nothing for the race detector")
	}
	cluster := pgtest.Run(t)
	addAcceptedSeeds(func(seed uint64, text string, size uint16) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			url := cluster.Database(t)
			anyRequests(t, onDatabase(url, 1, func(int64) {}), seed, text, int(size))
			s := onDatabase(url, 1, func(int64) {})(t)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			report, err := postgres.Check(t.Context(), url)
			if err != nil || len(report.Problems) > 0 {
				t.Errorf("the database is not whole: %v, %q", err, report.Problems)
			}
		})
	})
}

func addAcceptedSeeds(add func(seed uint64, text string, size uint16)) {
	add(1, "x", 256)
	add(2, "é", 253)
	add(3, "\x00", 65535)
	add(4, "a\xff/b%,\"=", 5000)
}

// waiting are ways of what still waits when the server stops.
var waiting = []struct{ name, method, path, body string }{
	{"flow-control key of a delayed message", "POST", "/v2/publish/https://example.com?upstash-delay=1h&upstash-flow-control-value=rate%3d1&upstash-flow-control-key={query}", ""},
	{"host of a delayed message", "POST", "/v2/batch", `[{"destination":"https://{json}","headers":{"Upstash-Delay":"1h"}}]`},
	{"queue of a delayed message", "POST", "/v2/batch", `[{"destination":"https://example.com","queue":"{json}","headers":{"Upstash-Delay":"1h"}}]`},
	{"run that is delayed", "POST", "/v2/trigger/https://example.com/workflow?upstash-delay=1h&upstash-workflow-runid={query}", ""},
}

// anyRequests makes requests that the seed decides, and reads everything in the end.
func anyRequests(t *testing.T, open backend, seed uint64, text string, size int) {
	t.Helper()
	const requests = 60
	ways := slices.Concat(inlets, waiting)
	for _, way := range bounded {
		ways = append(ways, struct{ name, method, path, body string }{way.name, way.method, way.path, way.body})
	}
	inWorldOf(t, setting{open: open, entropy: &momentary{}, maxBody: 1 << 20, maxBatch: 1 << 20}, func(w *world) {
		w.destinations.takes = ownTime
		h := &historian{world: w, rng: rand.New(rand.NewPCG(seed, 0)), start: time.Now()}
		for n := range requests {
			h.pass(time.Duration(1+h.rng.IntN(1500)) * time.Millisecond)
			if h.chance(3) {
				h.call(h.anyCall())
				continue
			}
			way := ways[h.rng.IntN(len(ways))]
			if n > requests-2*len(waiting) {
				way = waiting[n%len(waiting)]
			}
			long := []int{len(text), size, 253, 256, 257, 1024, 16_000, 1 << 16}[h.rng.IntN(8)]
			part := text
			if h.chance(2) {
				part = randomLetters(h.rng, long) // which do not compress
			}
			response := do(w.handler, newInletRequest(way.method, way.path, way.body, lengthened(part, long)))
			synctest.Wait()
			if response.Code >= http.StatusInternalServerError {
				t.Errorf("%s of %d bytes is answered %d %.500s", way.name, long, response.Code, response.Body)
			}
		}
		h.pass(5 * time.Minute)
		h.readAll()
	})
}

func randomLetters(rng *rand.Rand, size int) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	text := make([]byte, size)
	for i := range text {
		text[i] = letters[rng.IntN(len(letters))]
	}
	return string(text)
}

// lengthened repeats a text until it has so many bytes.
func lengthened(text string, size int) string {
	if text == "" {
		return ""
	}
	return strings.Repeat(text, size/len(text)+1)[:size]
}
