package workflow_test

import (
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	gocmp "github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/store/lsm"
	"posthaste/internal/workflow"
)

// epoch is when all bubbles begin.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// images takes an image of a disk after each commit: what a crash at that moment
// leaves.
type images struct {
	disk  *vfs.MemFS
	taken []image
}

// image is a disk after a crash.
type image struct {
	disk *vfs.MemFS
	at   time.Duration // since the epoch
}

// Committed implements lsm.Observer.
func (i *images) Committed(int, time.Duration, time.Duration) {
	i.taken = append(i.taken, image{i.disk.CrashClone(vfs.CrashCloneCfg{}), time.Since(epoch)})
}

// lastBefore returns the last image that was taken before a moment.
func (i *images) lastBefore(at time.Duration) image {
	last := image{}
	for _, image := range i.taken {
		if image.at < at {
			last = image
		}
	}
	return last
}

// script is what clients do with a server: each act at a time since the epoch.
type script struct {
	setup setup
	acts  []act
	until time.Duration // when everything has come to its end
}

// act is something that a client does. It may be done twice: whoever was not answered
// because of a crash asks again.
type act struct {
	at time.Duration
	do func(w *world)
}

// play begins with a disk, empty if nil, at a time, and goes on to the end. Clients do
// again what they did at that moment, for it may not have been answered.
func (s script) play(t *testing.T, disk *vfs.MemFS, from time.Duration, watch lsm.Observer, look func(w *world)) {
	t.Helper()
	begin := s.setup
	begin.disk, begin.delay, begin.watch = disk, from, watch
	inWorld(t, begin, func(w *world) {
		for _, act := range s.acts {
			if act.at >= from {
				w.at(act.at)
				act.do(w)
			}
		}
		w.at(max(from, s.until))
		look(w)
	})
}

// story is what became of a run: its end, and what its list says, as SDKs read it.
type story struct {
	State    posthaste.RunState
	Result   string
	Callback posthaste.CallbackState
	Steps    []string // in the order of their text: parallel ones come in any
}

// stories returns those of all runs by their ids.
func (w *world) stories() map[string]story {
	w.t.Helper()
	all := map[string]story{}
	for _, run := range w.runs() {
		s := story{State: run.State, Result: text(run.Result)}
		if run.Reported != nil {
			s.Callback = run.Reported.State
		}
		for _, entry := range w.list(run) {
			told := describe(entry)
			if step, isStep := parseStep(entry.Body); isStep && !step.isPlan() && entry.CallType == posthaste.CallStep {
				value, _ := step.returned()
				told += " = " + value
			}
			s.Steps = append(s.Steps, told)
		}
		slices.Sort(s.Steps)
		all[run.ID] = s
	}
	return all
}

// TestCrashPoints crashes a server after each commit of some runs, and goes on with
// what is left of its disk: each run ends as it does without a crash, with the result
// of each step stored once (contract, workflows 3.7).
func TestCrashPoints(t *testing.T) {
	start := act{0, func(w *world) { w.trigger("wf", "r", retries(1)) }}
	once := func(what string, f fault) func(visit) fault {
		return func(v visit) fault {
			if v.what == what && v.retried == 0 {
				return f
			}
			return noFault
		}
	}
	for name, c := range map[string]struct {
		flow  flow
		fault func(visit) fault
		acts  []act
		until time.Duration
	}{
		"one after the other": {flow{{run("a")}, {sleep("b", time.Second)}, {run("c")}}, nil, nil, 5 * time.Second},
		"a group":             {flow{{run("a"), sleep("b", time.Second), run("c")}, {run("d")}}, nil, nil, 5 * time.Second},
		"a call":              {flow{{call("a", "http://third/ok", 1)}, {run("b")}}, once("call", refuse), nil, 10 * time.Second},
		"an event": {
			flow{{wait("a", "e", time.Hour)}, {run("b")}}, nil,
			[]act{{2 * time.Second, func(w *world) { w.notify("r", "e", "news") }}}, 10 * time.Second,
		},
		"an event before its wait": {
			flow{{sleep("a", 3*time.Second)}, {wait("b", "e", time.Hour)}}, nil,
			[]act{{2 * time.Second, func(w *world) { w.notify("r", "e", "news") }}}, 10 * time.Second,
		},
		"no event":    {flow{{wait("a", "e", time.Second), run("b")}, {run("c")}}, nil, nil, 10 * time.Second},
		"invocations": {flow{{invoke("a", site+"child", ""), invoke("b", site+"failing", "")}}, nil, nil, 10 * time.Second},
		"retries":     {flow{{run("a")}, {run("b")}}, once("a", refuse), nil, 10 * time.Second},
		"lost answers": {
			flow{{run("a")}, {run("b"), run("c")}}, once("a", loseAnswer), nil, 10 * time.Second,
		},
		"a failure": {flow{{run("a")}, throw(500)}, once("failure", refuse), nil, 10 * time.Second},
		"cancelled": {
			flow{{run("a"), sleep("b", time.Minute), wait("c", "e", time.Minute)}}, nil,
			[]act{{2 * time.Second, func(w *world) {
				if err := w.Cancel(w.t.Context(), user, workflow.RunID{ID: "r"}); err != nil {
					w.t.Error(err)
				}
			}}}, 10 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			flows := map[string]flow{"wf": c.flow, "child": {{run("x")}}, "failing": {throw(489)}}
			s := script{setup{flows: flows, fault: c.fault}, append([]act{start}, c.acts...), c.until}
			taken := &images{disk: vfs.NewCrashableMem()}
			var want map[string]story
			s.play(t, taken.disk, 0, taken, func(w *world) { want = w.stories() })
			for i, crash := range taken.taken {
				s.play(t, crash.disk, crash.at, nil, func(w *world) {
					if diff := gocmp.Diff(want, w.stories()); diff != "" {
						t.Errorf("after a crash behind commit %d of %d, %s after the start (-want +got):\n%s",
							i+1, len(taken.taken), crash.at, diff)
					}
				})
			}
		})
	}
}
