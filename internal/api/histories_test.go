package api_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/partition"
	"posthaste/internal/store/postgres"
	"posthaste/internal/store/postgres/pgtest"
	"posthaste/internal/store/storetest/model"
)

var (
	histories = flag.Int("histories", 1, "how many histories TestHistories compares, of the seeds from 1 on; 0 leaves it out")
	history   = flag.Uint64("history", 0, "the seed of the only history that TestHistories compares; 0: there are several")
)

// callsOfHistory is how many calls a history has.
const callsOfHistory = 250

// TestHistories makes the same random calls, which a seed decides, to a server on each
// backend and to one on the model, while destinations fail, and requires that nobody could
// tell one from the other: not by what they answer, nor by what destinations get and when,
// nor by any list in the end. No call may be answered with a failure of the server, however
// odd it is.
//
// Ids have names in order of appearance. What a store may put in any order is sorted: what
// happens in the same millisecond.
func TestHistories(t *testing.T) {
	if testing.Short() {
		t.Skip("sequential: nothing for the race detector")
	}
	cluster := pgtest.Run(t)
	for _, seed := range historySeeds() {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			want := makeHistory(t, onModel, seed)
			compareHistories(t, seed, "embedded", want, makeHistory(t, onDisk, seed))
			compareHistories(t, seed, fmt.Sprintf("postgres with %d partitions", partitionsOf(seed)), want, historyOnDatabase(t, cluster, seed))
		})
	}
}

func historySeeds() (seeds []uint64) {
	if *history != 0 {
		return []uint64{*history}
	}
	for n := range *histories {
		seeds = append(seeds, uint64(n)+1)
	}
	return seeds
}

// onModel is the backend that the others are compared with.
func onModel(*testing.T) store.Store { return model.New() }

// historyOnDatabase makes a history on PostgreSQL, and makes it again if the node has lost
// its leases meanwhile, so that attempts were made twice: they last ten seconds by the clock
// of the database, which goes on while a machine lets the test stand still.
func historyOnDatabase(t *testing.T, cluster *pgtest.Cluster, seed uint64) []string {
	t.Helper()
	const tries = 3
	for range tries {
		var joined atomic.Int32
		told := makeHistory(t, onDatabase(cluster.Database(t), partitionsOf(seed), func(int64) { joined.Add(1) }), seed)
		if joined.Load() == 1 {
			return told
		}
		t.Log("the node has lost its leases")
	}
	t.Fatalf("the node has lost its leases in each of %d tries", tries)
	return nil
}

// partitionsOf returns in how many partitions the users of a seed's database are divided.
func partitionsOf(seed uint64) store.Partitions { return []store.Partitions{16, 4, 1}[seed%3] }

// onDatabase is a backend on a database that is empty. Nobody waits for its disk: nothing
// crashes here.
func onDatabase(url string, partitions store.Partitions, joined func(node int64)) backend {
	return func(t *testing.T) store.Store {
		t.Helper()
		options := postgres.Options{Partitions: partitions, Joined: joined, AnyClock: true, ClaimAccepted: true, Logger: slog.New(slog.DiscardHandler)}
		s, err := ledger.Over(partition.Over(postgres.Open(t.Context(), url+"&synchronous_commit=off", options)))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// compareHistories fails where a history begins to differ from that of the model: what
// comes after follows from that.
func compareHistories(t *testing.T, seed uint64, name string, want, got []string) {
	t.Helper()
	at := 0
	for at < min(len(want), len(got)) && want[at] == got[at] {
		at++
	}
	if at < max(len(want), len(got)) {
		t.Fatalf("with -history=%d, %s and the model tell different things after\n%s\n(-model +%s):\n%s", seed, name,
			strings.Join(want[max(0, at-3):at], "\n"), name, cmp.Diff(toldAt(want, at), toldAt(got, at)))
	}
}

func toldAt(told []string, at int) string { return strings.Join(told[at:min(at+1, len(told))], "") }

// historian makes a history and writes it down.
type historian struct {
	*world
	rng   *rand.Rand
	start time.Time
	told  []string
}

func makeHistory(t *testing.T, open backend, seed uint64) (told []string) {
	t.Helper()
	inWorldOf(t, setting{open: open, entropy: &momentary{}, maxBody: 200, maxBatch: 2000}, func(w *world) {
		w.destinations.takes = ownTime
		h := &historian{world: w, rng: rand.New(rand.NewPCG(seed, 0)), start: time.Now()}
		for range callsOfHistory {
			h.pass(time.Duration(1+h.rng.IntN(1500)) * time.Millisecond)
			h.call(h.anyCall())
		}
		h.pass(5 * time.Minute)
		h.readAll()
		for _, kind := range []string{"message", "letter", "run"} {
			if h.names.count[kind] == 0 {
				h.Errorf("there is no %s in the history", kind)
			}
		}
		told = h.told
	})
	return told
}

// momentary is entropy that the moment alone decides: a server that draws more of it than
// another at some time has the same ids at all other times.
type momentary struct {
	mu     sync.Mutex
	moment int64 // Unix µs
	reader *rand.ChaCha8
}

func (m *momentary) Read(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now().UnixMicro(); now != m.moment {
		var seed [32]byte
		binary.BigEndian.PutUint64(seed[:], uint64(now))
		m.moment, m.reader = now, rand.NewChaCha8(seed)
	}
	return m.reader.Read(p)
}

// ownTime is how long an attempt takes: each another time, which does not depend on ids, so
// that hardly any two end at once, or with a call. Which of those comes first is not for a
// seed to decide.
func ownTime(m *posthaste.Message, retried int) time.Duration {
	sum := fnv.New64a()
	fmt.Fprint(sum, m.URL, m.CreatedAt.UnixMilli(), names{}.without(string(m.Body)), retried)
	return 10*time.Millisecond + time.Duration(sum.Sum64()%4_000_000)*time.Microsecond
}

func (h *historian) tell(format string, args ...any) {
	h.told = append(h.told, fmt.Sprintf("%8s ", time.Since(h.start))+fmt.Sprintf(format, args...))
}

// pass lets time go by and tells what destinations got meanwhile.
func (h *historian) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	if got := h.delivered(); len(got) > 0 {
		h.tell("delivered\n%s", got)
	}
}

// call makes a call and tells what it was and what was answered. Pages of a list are told
// as one.
func (h *historian) call(text string) {
	h.Helper()
	response := h.send(h.names.insert([]byte(text)))
	if response.Code >= http.StatusInternalServerError {
		h.Errorf("%s\nis answered with %d %s", text, response.Code, response.Body)
	}
	answered := decodeAnswer(response)
	if strings.HasPrefix(text, "GET ") {
		for page := answered; cursorIn(page) != ""; {
			page = decodeAnswer(h.send(h.names.insert([]byte(onPage(text, cursorIn(page))))))
			joinPage(answered, page)
		}
	}
	if answered != nil {
		response.Body = bytes.NewBuffer(h.readable(answered))
	}
	h.tell("%s\n%s", text, h.names.remove(describeResponse(response)))
}

// decodeAnswer decodes an answer; nil if it is no JSON.
func decodeAnswer(response *httptest.ResponseRecorder) (v any) {
	d := json.NewDecoder(bytes.NewReader(response.Body.Bytes()))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

// cursorIn is the cursor of a page, "" if it is none or the last.
func cursorIn(page any) string {
	object, _ := page.(map[string]any)
	cursor, _ := object["cursor"].(string)
	return cursor
}

// onPage is the call for the page of a list that begins at a cursor.
func onPage(text, cursor string) string {
	line, others, _ := strings.Cut(text, " HTTP/1.1\n")
	if !strings.Contains(line, "?") {
		line += "?"
	}
	return line + "&cursor=" + cursor + " HTTP/1.1\n" + others
}

// joinPage adds what is on another page to a list.
func joinPage(list, page any) {
	all, _ := list.(map[string]any)
	more, _ := page.(map[string]any)
	delete(all, "cursor")
	for name, elements := range more {
		if elements, ok := elements.([]any); ok {
			before, _ := all[name].([]any)
			all[name] = append(before, elements...)
		}
	}
}

// readAll reads everything that there is.
func (h *historian) readAll() {
	for _, path := range []string{
		"logs?count=7", "logs?count=50&order=earliestFirst", "dlq?count=3", "queues", "flowControl", "topics", "schedules",
		"bulkActions", "globalParallelism", "workflows/logs?count=4", "workflows/events?count=11", "workflows/dlq?count=2", "workflows/bulkActions",
	} {
		for _, token := range []string{"full", "other"} {
			h.call("GET /v2/" + path + " HTTP/1.1\nAuthorization: Bearer " + token + "\n\n")
		}
	}
	for n := range h.names.count["message"] {
		h.call(get(fmt.Sprintf("messages/{message%d}", n+1)))
	}
}

func get(path string) string { return "GET /v2/" + path + " HTTP/1.1\n\n" }
