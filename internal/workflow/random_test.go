package workflow_test

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/workflow"
)

// Environment variables that say which seeds the tests of random flows try.
const (
	seedsVariable = "WORKFLOW_SEEDS" // how many, from 1 on; some if not set
	seedVariable  = "WORKFLOW_SEED"  // this one alone
)

const (
	crashesPerSeed = 3
	repairedAt     = time.Minute // nothing goes wrong any more, and what failed is restarted
	randomEnd      = 2 * time.Minute
)

// TestRandom runs random flows while destinations fail, answers get lost, requests come
// twice, clients notify and cancel, and the server crashes. The audit then finds each
// step's result stored once and every run ended, in success, in the DLQ or cancelled;
// and what was restarted after the trouble has not failed again.
//
// A seed decides the flows and what goes wrong with which request; which of those of
// the same moment comes first does not depend on it.
func TestRandom(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 3
	}
	for _, seed := range randomSeeds(t, seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			s := randomScript(rng, seed)
			taken := &images{disk: vfs.NewCrashableMem()}
			from := time.Duration(0)
			for range crashesPerSeed {
				s.play(t, taken.disk, from, taken, (*world).wantAllEnded)
				crash := taken.early(rng)
				taken, from = &images{disk: crash.disk}, crash.at
			}
			s.play(t, taken.disk, from, nil, (*world).wantAllEnded)
			if t.Failed() {
				t.Logf("try it again with %s=%d", seedVariable, seed)
			}
		})
	}
}

// TestRandomEveryCrash crashes the flows of one seed behind every commit, or some of them
// with the race detector. Like those of
// the other seeds they have ended as they should, whichever it was.
func TestRandomEveryCrash(t *testing.T) {
	seed := randomSeeds(t, 1)[0]
	s := randomScript(rand.New(rand.NewPCG(seed, 0)), seed)
	taken := &images{disk: vfs.NewCrashableMem()}
	s.play(t, taken.disk, 0, taken, (*world).wantAllEnded)
	for n, crash := range taken.taken {
		if testing.Short() && n%8 > 0 {
			continue
		}
		t.Run(fmt.Sprint("commit ", n), func(t *testing.T) {
			s.play(t, crash.disk, crash.at, nil, (*world).wantAllEnded)
		})
	}
}

// early returns one of the first half of the images: the next crash is to find
// something to do, too.
func (i *images) early(rng *rand.Rand) image { return i.taken[rng.IntN((len(i.taken)+1)/2)] }

// randomSeeds are as many as usual, unless a variable says otherwise.
func randomSeeds(t *testing.T, usual uint64) []uint64 {
	t.Helper()
	if one := seedNumber(t, seedVariable, 0); one > 0 {
		return []uint64{one}
	}
	all := make([]uint64, seedNumber(t, seedsVariable, usual))
	for i := range all {
		all[i] = uint64(i) + 1
	}
	return all
}

func seedNumber(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	given := os.Getenv(variable)
	if given == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(given, 10, 32)
	if err != nil || n == 0 {
		t.Fatalf("%s is %q, a number from 1 on is expected", variable, given)
	}
	return n
}

// randomScript makes some flows, runs of them, and clients that meddle with these.
func randomScript(rng *rand.Rand, seed uint64) script {
	const roots, runs = 3, 5
	g := generator{rng}
	flows := map[string]flow{"leaf": g.flow(0), "child": g.flow(1)}
	for i := range roots {
		flows[fmt.Sprint("root", i)] = g.flow(2)
	}
	s := script{setup: setup{flows: flows, fault: faults(seed)}, until: randomEnd}
	for i := range runs {
		path, tries := fmt.Sprint("root", rng.IntN(roots)), rng.IntN(4)
		s.acts = append(s.acts, act{g.moment(2), func(w *world) { w.trigger(path, fmt.Sprint("r", i), retries(tries)) }})
	}
	for range 10 {
		s.acts = append(s.acts, g.meddling())
	}
	slices.SortStableFunc(s.acts, func(a, b act) int { return cmp.Compare(a.at, b.at) })
	s.acts = append(s.acts, act{repairedAt, (*world).restartAll})
	return s
}

// generator makes random flows.
type generator struct{ rng *rand.Rand }

func (g generator) oneIn(n int) bool { return g.rng.IntN(n) == 0 }

// moment is a time within the first seconds.
func (g generator) moment(seconds int) time.Duration {
	return time.Duration(g.rng.IntN(seconds*1000)) * time.Millisecond
}

func (g generator) run() string { return fmt.Sprint("r", g.rng.IntN(5)) }

func (g generator) event() string { return fmt.Sprint("e", g.rng.IntN(3)) }

// flow makes a flow that may invoke others so deep.
func (g generator) flow(depth int) flow {
	var f flow
	steps := 0
	for range 1 + g.rng.IntN(3) {
		var made group
		for range 1 + g.rng.IntN(3) {
			steps++
			made = append(made, g.step(fmt.Sprint("s", steps), depth))
		}
		f = append(f, made)
	}
	switch {
	case g.oneIn(6):
		f = append(f, throw([]int{489, 500}[g.rng.IntN(2)]))
	case g.oneIn(8):
		f = append(f, cancel())
	}
	return f
}

func (g generator) step(name string, depth int) step {
	switch kind := g.rng.IntN(8); {
	case kind == 0:
		return sleep(name, g.moment(3))
	case kind == 1:
		return sleepUntil(name, g.moment(10))
	case kind == 2:
		s := call(name, "http://third/ok", g.rng.IntN(3))
		s.keep = !g.oneIn(4)
		return s
	case kind == 3:
		return wait(name, g.event(), time.Second+g.moment(8))
	case kind == 4:
		return notify(name, g.run(), g.event())
	case kind == 5 && depth > 0:
		return invoke(name, site+[]string{"leaf", "child"}[g.rng.IntN(depth)], "")
	default:
		return run(name)
	}
}

// meddling is what a client does to a run that it knows of.
func (g generator) meddling() act {
	id, event, all := g.run(), g.event(), g.oneIn(3)
	if g.oneIn(5) {
		return act{g.moment(10), func(w *world) { w.tolerate(w.Cancel(w.t.Context(), user, workflow.RunID{ID: id})) }}
	}
	return act{g.moment(15), func(w *world) {
		var err error
		if all {
			_, err = w.Notify(w.t.Context(), user, event, []byte("to all"))
		} else {
			_, err = w.NotifyRun(w.t.Context(), user, id, event, []byte("to one"))
		}
		w.tolerate(err)
	}}
}

// tolerate lets it pass that a run is not there.
func (w *world) tolerate(err error) {
	w.t.Helper()
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		w.t.Error(err)
	}
}

// faults decides by the seed what goes wrong with a request. The same goes wrong when
// it is made again after a crash.
func faults(seed uint64) func(v visit) fault {
	return func(v visit) fault {
		if v.at >= repairedAt {
			return noFault
		}
		h := fnv.New64a()
		fmt.Fprint(h, seed, v.message.Run.ID, v.path, v.what, v.retried)
		switch chance := h.Sum64() % 100; {
		case chance < 12:
			return refuse
		case chance < 22:
			return loseAnswer
		case chance < 32:
			return twice
		default:
			return noFault
		}
	}
}

// restartAll restarts and resumes in turn whatever has failed.
func (w *world) restartAll() {
	w.t.Helper()
	page, err := w.Failed(w.t.Context(), user, store.RunQuery{High: posthaste.MaxPosition, OldestFirst: true, Limit: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	for i, letter := range page.DeadLetters {
		request := workflow.RestartRequest{IDs: []posthaste.DeadLetterID{letter.ID}, Resume: i%2 == 0}
		if _, _, err := w.Restart(w.t.Context(), user, request); err != nil {
			w.t.Errorf("restart run %s: %v", page.Runs[i].ID, err)
		}
	}
}

// wantAllEnded requires every run to have ended, those that were restarted not by a
// failure that is not in their flow. The audit does the rest.
func (w *world) wantAllEnded() {
	w.t.Helper()
	for _, run := range w.runs() {
		if run.Active() {
			w.t.Errorf("run %s of %s goes on: %v", run.ID, path(run.URL), w.stories()[run.ID])
		}
		if run.Origin != nil && run.State == posthaste.RunFailed && !w.failsByItself(path(run.URL)) {
			w.t.Errorf("run %s of %s, which takes the place of %s, failed with status %d", run.ID, path(run.URL), run.Origin.ID, run.FailedStatus)
		}
		if reported := run.Reported; reported != nil && reported.State == posthaste.CallbackInProgress {
			w.t.Errorf("the failure callback of run %s is in progress", run.ID)
		}
	}
}

// failsByItself reports whether the code of a flow throws an error.
func (w *world) failsByItself(path string) bool {
	f := w.setup.flows[path]
	return f[len(f)-1][0].kind == kindThrow
}
