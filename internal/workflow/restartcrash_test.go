package workflow_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/store"
	"posthaste/internal/workflow"
)

const (
	crashRuns = 9
	crashPage = 3 // runs in one request
)

// TestRestartCrash crashes the store at every commit of a server that restarts failed
// runs, and goes on with what is left of the disk: an entry is still in the DLQ or
// its run was restarted once, all of a request or none; what was answered is so; and
// repeated requests finish the work (contract, decisions 9 and 10).
func TestRestartCrash(t *testing.T) {
	for seed, name := range []string{"restart", "resume"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testRestartCrash(t, name == "resume", uint64(seed)) })
		})
	}
}

func testRestartCrash(t *testing.T, resume bool, seed uint64) {
	recorder := &crashes{disk: vfs.NewCrashableMem(), rng: rand.New(rand.NewPCG(seed, 0))}
	begin := setup{
		flows: map[string]flow{"wf": {{run("a")}, throw(489)}},
		disk:  recorder.disk,
		watch: recorder,
	}
	w := newWorld(t, begin)
	for i := range crashRuns {
		w.trigger("wf", fmt.Sprint("r", i))
	}
	w.pass(time.Minute)
	sweep := newKeyedSweep(w, resume)
	recorder.record()
	for page := range sweep.pages {
		recorder.told(sweep.restart(w, page))
	}
	w.pass(time.Minute) // in which they fail again
	recorder.stop()
	w.close()
	if len(recorder.crashed) < len(sweep.pages) {
		t.Fatalf("%d crashes, want one after each of %d pages", len(recorder.crashed), len(sweep.pages))
	}
	for _, c := range recorder.crashed {
		begin.disk, begin.watch = c.disk, nil
		w := newWorld(t, begin)
		w.wantWholePages(sweep, c.answers)
		for page := range sweep.pages {
			answer := sweep.restart(w, page)
			if page < len(c.answers) && answer != c.answers[page] {
				t.Errorf("page %d is answered %s, and was answered %s", page, answer, c.answers[page])
			}
		}
		w.pass(time.Minute)
		w.wantRestartedOnce()
		w.close()
	}
}

// crashes keeps what a power failure would have left of a disk after each commit.
type crashes struct {
	disk *vfs.MemFS
	rng  *rand.Rand

	mu        sync.Mutex
	recording bool
	answers   []string
	crashed   []crash
}

// crash is what is left, and what had been answered before.
type crash struct {
	disk    *vfs.MemFS
	answers []string
}

func (c *crashes) record() { c.mu.Lock(); c.recording = true; c.mu.Unlock() }
func (c *crashes) stop()   { c.mu.Lock(); c.recording = false; c.mu.Unlock() }

// told notes the answer to the next page.
func (c *crashes) told(answer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers = append(c.answers, answer)
}

// Committed implements lsm.Observer. What was written after the sync survives in
// part.
func (c *crashes) Committed(int, time.Duration, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.recording {
		return
	}
	disk := c.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: c.rng.IntN(101), RNG: c.rng})
	c.crashed = append(c.crashed, crash{disk, c.answers[:len(c.answers):len(c.answers)]})
}

// keyedSweep restarts entries of the DLQ page by page, with an idempotency key.
type keyedSweep struct {
	resume bool
	pages  [][]posthaste.DeadLetterID
}

func newKeyedSweep(w *world, resume bool) *keyedSweep {
	s := &keyedSweep{resume: resume}
	for i := range crashRuns {
		if i%crashPage == 0 {
			s.pages = append(s.pages, nil)
		}
		last := len(s.pages) - 1
		s.pages[last] = append(s.pages[last], w.letter(fmt.Sprint("r", i)).ID)
	}
	return s
}

// restart restarts a page and returns the answer.
func (s *keyedSweep) restart(w *world, page int) string {
	w.t.Helper()
	answer := func(done workflow.Restarts) []byte {
		var ids []string
		for _, r := range done.Results {
			ids = append(ids, fmt.Sprint(r.ID, " became ", r.Run.ID, " ", r.Err))
		}
		return []byte(strings.Join(ids, ", "))
	}
	done, kept, err := w.Restart(w.t.Context(), user, workflow.RestartRequest{
		IDs:         s.pages[page],
		Resume:      s.resume,
		Idempotency: &workflow.Idempotency{Key: "k", Fingerprint: "all", Page: fmt.Sprint(page), Encode: answer},
	})
	if err != nil {
		w.t.Fatalf("restart page %d: %v", page, err)
	}
	if kept != nil {
		return string(kept)
	}
	return string(answer(done))
}

// wantWholePages requires each page of a sweep to have been done as a whole or not at
// all, and those that were answered to have been done.
func (w *world) wantWholePages(s *keyedSweep, answers []string) {
	w.t.Helper()
	for page, ids := range s.pages {
		inDLQ, err := engine.FindEntries(w.FailedIDs).Count(w.t.Context(), user, store.DeadLetterQuery{
			Filter: posthaste.Filter{DeadLetterIDs: ids}, High: posthaste.MaxPosition,
		})
		if err != nil || inDLQ != 0 && inDLQ != len(ids) || inDLQ > 0 && page < len(answers) {
			w.t.Errorf("%d of %d entries of page %d are in the DLQ, error %v, and %d pages were answered",
				inDLQ, len(ids), page, err, len(answers))
		}
		for i := range ids {
			run := w.run(fmt.Sprint("r", page*crashPage+i))
			if restarted := run.Successor != nil; restarted != (inDLQ == 0) {
				w.t.Errorf("run %s: restarted %v, and %d entries of its page are in the DLQ", run.ID, restarted, inDLQ)
			}
		}
	}
}

// wantRestartedOnce requires one run in the place of each that failed first, which
// has failed, too, and is all that is in the DLQ.
func (w *world) wantRestartedOnce() {
	w.t.Helper()
	restarts := map[string]int{}
	for _, run := range w.runs() {
		if run.State != posthaste.RunFailed {
			w.t.Errorf("run %s is %s", run.ID, run.State)
		}
		if run.Origin != nil {
			restarts[run.Origin.ID]++
			w.wantFailure(run.ID, 489, "489")
		}
	}
	for i := range crashRuns {
		if id := fmt.Sprint("r", i); restarts[id] != 1 {
			w.t.Errorf("run %s was restarted %d times", id, restarts[id])
		}
	}
	if n, err := engine.FindEntries(w.FailedIDs).Count(w.t.Context(), user, store.DeadLetterQuery{High: posthaste.MaxPosition}); n != crashRuns || err != nil {
		w.t.Errorf("%d entries are in the DLQ, want %d: %v", n, crashRuns, err)
	}
}
