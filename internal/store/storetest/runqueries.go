package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

var runQueryPromises = []promise{
	{"a store without runs has none", func(tr *trial) {
		for _, query := range []store.RunQuery{allRuns, allInDLQ} {
			for _, query.OldestFirst = range []bool{true, false} {
				if page, err := tr.store.Runs(tr.Context(), ann, query); err != nil || len(page.Runs) > 0 || page.More {
					tr.Errorf("Runs = %+v, %v, want an empty last page", page, err)
				}
			}
		}
	}},
	{"each field filters alone", func(tr *trial) {
		a := tr.makeArchive(60)
		for _, field := range runFields {
			for _, limit := range []int{1, 7, 100} {
				a.ask(tr, limit, field)
			}
		}
	}},
	{"fields are joined by AND", func(tr *trial) {
		a := tr.makeArchive(60)
		for i, first := range runFields {
			for _, second := range runFields[:i] {
				a.ask(tr, []int{1, 7, 100}[a.rng.IntN(3)], first, second)
			}
		}
	}},
	{"any set of fields filters any range", func(tr *trial) {
		a := tr.makeArchive(60)
		for range 100 {
			a.askRange(tr)
		}
	}},
	{"what nobody has matches nothing", func(tr *trial) {
		tr.makeArchive(30)
		for name, filter := range noRunHas {
			for _, query := range []store.RunQuery{allRuns, allInDLQ} {
				if found := tr.runs(ann, withFilter(query, filter)); len(found) > 0 {
					tr.Errorf("%s: %d runs match %+v", name, len(found), filter)
				}
			}
		}
	}},
	{"a run is found by what it gets later, among many that had it", func(tr *trial) {
		const many = 100
		var all []posthaste.RunRef
		tr.transact(func(tx store.RunTx) error {
			for n := range many {
				made := tr.runOf(withID(fmt.Sprintf("run-%03d", n)))
				made.Position = tx.NextPosition()
				made.CreatedAt, made.Labels, made.FlowControl.Key = made.Position.Time(), []string{"label"}, "key"
				tx.Start(&made)
				all = append(all, made.RunRef)
			}
			return nil
		})
		tr.transact(func(tx store.RunTx) error {
			for _, ref := range all {
				run, err := tx.Run(ref.Position)
				if err != nil {
					return err
				}
				run.Labels, run.FlowControl.Key = nil, ""
				tx.Save(run)
			}
			return nil
		})
		queries := map[string]posthaste.Filter{"label": {Labels: []string{"label"}}, "flow-control key": {FlowKeys: []string{"key"}}}
		for name, filter := range queries {
			if found := tr.runs(ann, withFilter(allRuns, filter)); len(found) > 0 {
				tr.Errorf("%d runs are found by a %s that they had", len(found), name)
			}
		}
		late := &posthaste.Run{User: ann, RunRef: all[many/2]}
		tr.update(late, func(_ store.RunTx, run *posthaste.Run) error {
			run.Labels, run.FlowControl.Key = []string{"label"}, "key"
			return nil
		})
		for name, filter := range queries {
			if found := tr.runs(ann, withFilter(allRuns, filter)); len(found) != 1 || found[0].RunRef != late.RunRef {
				tr.Errorf("%d runs are found by their %s, want the one that got it late", len(found), name)
			}
		}
	}},
	{"what has changed is found as it is", func(tr *trial) {
		a := tr.makeArchive(60)
		for range 5 {
			a.shake(tr)
			for _, field := range runFields {
				a.ask(tr, 7, field)
			}
		}
	}},
	{"changes while a reader pages do not disturb it", func(tr *trial) {
		for _, query := range []store.RunQuery{{}, {OldestFirst: true}, {Failed: true}, {Failed: true, OldestFirst: true}} {
			query.High, query.Limit = posthaste.MaxPosition, 3
			tr.makeArchive(30).page(tr, query)
		}
	}},
}

// archive is all runs of ann, which queries are compared with.
type archive struct {
	runs  []*posthaste.Run                          // by position
	inDLQ map[posthaste.DeadLetterID]*posthaste.Run // those in the DLQ
	rng   *rand.Rand
}

// makeArchive starts n runs of ann that differ in all that can be filtered, and
// some of anna. A third is in the DLQ.
func (tr *trial) makeArchive(n int) *archive {
	tr.Helper()
	a := &archive{rng: rand.New(rand.NewPCG(9, 10))}
	for range n {
		run, _ := tr.start(runVariety(a.rng))
		tr.addToDLQ(tr.firstOf(tr.start(runVariety(a.rng), func(run *posthaste.Run) { run.User = anna })))
		switch a.rng.IntN(4) {
		case 0:
			tr.update(run, func(_ store.RunTx, run *posthaste.Run) error {
				run.State = posthaste.RunStates[a.rng.IntN(len(posthaste.RunStates))]
				return nil
			})
		case 1, 2:
			a.addToDLQ(tr, run)
		}
		tr.wait(time.Duration(a.rng.IntN(3)) * time.Hour)
	}
	a.refresh(tr)
	a.shake(tr)
	return a
}

func (*trial) firstOf(run *posthaste.Run, _ *posthaste.Message) *posthaste.Run { return run }

// runVariety gives each run it is applied to other values, of few, so that runs
// have some in common.
func runVariety(rng *rand.Rand) func(*posthaste.Run) {
	var like posthaste.Message
	vary := variety(rng)
	return func(run *posthaste.Run) {
		like = posthaste.Message{}
		vary(&like)
		run.ID = fmt.Sprintf("wfr_%c%d", 'a'+rune(rng.IntN(3)), rng.IntN(30))
		run.URL, run.CallerIP = like.URL, like.CallerIP
		run.Settings = like.Settings
	}
}

// addToDLQ lets a run fail for one reason or another.
func (a *archive) addToDLQ(tr *trial, run *posthaste.Run) {
	tr.Helper()
	m := tr.message(delayed(never))
	letter := &posthaste.DeadLetter{Error: "no"}
	if status := a.rng.IntN(3); status > 0 {
		letter.Response = &posthaste.Response{Status: 500 + status}
	}
	tr.update(run, func(tx store.RunTx, run *posthaste.Run) error {
		letter.Message = m
		err := appendTo(tx, run, m)
		addToDLQIn(tx, run, letter)
		return err
	})
}

// refresh reads all runs again, one by one.
func (a *archive) refresh(tr *trial) {
	tr.Helper()
	a.runs, a.inDLQ = nil, map[posthaste.DeadLetterID]*posthaste.Run{}
	seen := map[posthaste.Position]bool{}
	for _, e := range tr.events(ann, logQuery(posthaste.Filter{OfRuns: true})) {
		if seen[e.Message.Run.Position] {
			continue
		}
		seen[e.Message.Run.Position] = true
		run := tr.run(&posthaste.Run{User: ann, RunRef: e.Message.Run.RunRef})
		a.runs = append(a.runs, run)
		if run.DeadLetterID != 0 && run.Successor == nil {
			a.inDLQ[run.DeadLetterID] = run
		}
	}
	slices.SortFunc(a.runs, func(x, y *posthaste.Run) int { return int(x.Position) - int(y.Position) })
}

// shake changes what may change of some runs.
func (a *archive) shake(tr *trial) {
	tr.Helper()
	for _, run := range a.runs {
		switch inDLQ := a.inDLQ[run.DeadLetterID] != nil; {
		case inDLQ && a.rng.IntN(8) == 0:
			a.removeFromDLQ(tr, run)
		case a.rng.IntN(3) == 0:
			tr.report(run, posthaste.CallbackStates[a.rng.IntN(len(posthaste.CallbackStates))])
		case !inDLQ && run.DeadLetterID == 0 && a.rng.IntN(4) == 0:
			a.addToDLQ(tr, run)
		case !inDLQ && a.rng.IntN(2) == 0:
			tr.update(run, func(_ store.RunTx, run *posthaste.Run) error {
				run.State = posthaste.RunStates[a.rng.IntN(len(posthaste.RunStates))]
				run.Labels = append(slices.Clone(run.Labels), "label-1")
				return nil
			})
		}
	}
	a.refresh(tr)
}

// removeFromDLQ takes a run out of the DLQ, as a restart would; its failure callback may
// end at the same time.
func (a *archive) removeFromDLQ(tr *trial, run *posthaste.Run) {
	tr.Helper()
	report := a.rng.IntN(2) == 0
	tr.update(run, func(tx store.RunTx, run *posthaste.Run) error {
		run.Successor = &posthaste.RunRef{ID: "successor"}
		if report {
			run.Reported = &posthaste.RunCallback{State: posthaste.CallbackCancelled}
		}
		tx.RemoveFromDLQ(run)
		return nil
	})
}

// runField is a field of a filter of runs. ask makes a filter ask for what the run has
// there; it returns false if the run has nothing.
type runField struct {
	name string
	ask  func(f *posthaste.Filter, run *posthaste.Run) bool
}

var runFields = []runField{
	{"Positions", func(f *posthaste.Filter, run *posthaste.Run) bool {
		f.Positions = append(f.Positions, run.Position)
		return true
	}},
	{"DeadLetterIDs", func(f *posthaste.Filter, run *posthaste.Run) bool {
		if run.DeadLetterID == 0 {
			return false
		}
		f.DeadLetterIDs = append(f.DeadLetterIDs, run.DeadLetterID)
		return true
	}},
	{"IDs", func(f *posthaste.Filter, run *posthaste.Run) bool { return askText(&f.RunIDs, run.ID) }},
	{"IDPrefixes", func(f *posthaste.Filter, run *posthaste.Run) bool {
		return askText(&f.RunIDPrefixes, run.ID[:len("wfr_a")+int(run.Position>>20)%2])
	}},
	{"URLs", func(f *posthaste.Filter, run *posthaste.Run) bool { return askText(&f.URLs, run.URL) }},
	{"URLPrefixes", func(f *posthaste.Filter, run *posthaste.Run) bool {
		return askText(&f.URLPrefixes, run.URL[:strings.LastIndexByte(run.URL, '/')])
	}},
	{"Hosts", func(f *posthaste.Filter, run *posthaste.Run) bool {
		host, _ := posthaste.HostAndPath(run.URL)
		return askText(&f.Hosts, strings.ToUpper(host))
	}},
	{"Paths", func(f *posthaste.Filter, run *posthaste.Run) bool {
		_, path := posthaste.HostAndPath(run.URL)
		return askText(&f.Paths, path)
	}},
	{"States", func(f *posthaste.Filter, run *posthaste.Run) bool {
		f.RunStates = append(f.RunStates, run.State)
		return true
	}},
	{"Labels", func(f *posthaste.Filter, run *posthaste.Run) bool {
		return len(run.Labels) > 0 && askText(&f.Labels, run.Labels[len(run.Labels)-1])
	}},
	{"CallerIPs", func(f *posthaste.Filter, run *posthaste.Run) bool { return askText(&f.CallerIPs, run.CallerIP) }},
	{"FlowKeys", func(f *posthaste.Filter, run *posthaste.Run) bool { return askText(&f.FlowKeys, run.FlowControl.Key) }},
	{"CreatedAts", func(f *posthaste.Filter, run *posthaste.Run) bool {
		f.CreatedAts = append(f.CreatedAts, run.CreatedAt)
		return true
	}},
	{"CallbackStates", func(f *posthaste.Filter, run *posthaste.Run) bool {
		if run.Reported == nil {
			return false
		}
		f.CallbackStates = append(f.CallbackStates, run.Reported.State)
		return true
	}},
	{"Statuses", func(f *posthaste.Filter, run *posthaste.Run) bool {
		f.Statuses = append(f.Statuses, run.FailedStatus)
		return true
	}},
}

// noRunHas makes, for each field, a filter for a value that no run has.
var noRunHas = map[string]posthaste.Filter{
	"Positions":      {Positions: []posthaste.Position{7}},
	"DeadLetterIDs":  {DeadLetterIDs: []posthaste.DeadLetterID{7}},
	"IDs":            {RunIDs: []string{"wfr_"}},
	"IDPrefixes":     {RunIDPrefixes: []string{"fr_", "wfr_a1\x00"}},
	"URLs":           {URLs: []string{"http://Host1.example/path"}},
	"URLPrefixes":    {URLPrefixes: []string{"host1.example"}},
	"Hosts":          {Hosts: []string{"example"}},
	"Paths":          {Paths: []string{"path"}},
	"States":         {RunStates: []posthaste.RunState{"RUN_LOST"}},
	"Labels":         {Labels: []string{"label-1,label-2"}},
	"CallerIPs":      {CallerIPs: []string{"192.0.2"}},
	"FlowKeys":       {FlowKeys: []string{"flow-1 "}},
	"CreatedAts":     {CreatedAts: []time.Time{start.Add(-time.Millisecond)}},
	"CallbackStates": {CallbackStates: []posthaste.CallbackState{"CALLBACK_LOST"}},
	"Statuses":       {Statuses: []int{500}},
}

// any returns some run.
func (a *archive) any() *posthaste.Run { return a.runs[a.rng.IntN(len(a.runs))] }

// filter asks for a value of each field.
func (a *archive) filter(filter *posthaste.Filter, fields ...runField) {
	for _, field := range fields {
		for range 10 {
			if field.ask(filter, a.any()) {
				break
			}
		}
	}
}

// ask asks for one value of each field, and then for two, which are united, in both
// orders, of all runs and of the DLQ.
func (a *archive) ask(tr *trial, limit int, fields ...runField) {
	tr.Helper()
	var filter posthaste.Filter
	for range 2 {
		a.filter(&filter, fields...)
		for _, failed := range []bool{true, false} {
			for _, oldestFirst := range []bool{true, false} {
				a.compare(tr, store.RunQuery{
					Filter: filter, Failed: failed, High: posthaste.MaxPosition, OldestFirst: oldestFirst, Limit: limit,
				})
			}
		}
	}
}

// askRange asks for a few fields between two positions.
func (a *archive) askRange(tr *trial) {
	tr.Helper()
	query := store.RunQuery{Failed: a.rng.IntN(2) == 0, OldestFirst: a.rng.IntN(2) == 0, Limit: 1 + a.rng.IntN(20)}
	for range a.rng.IntN(4) {
		a.filter(&query.Filter, runFields[a.rng.IntN(len(runFields))])
	}
	at := func(run *posthaste.Run) posthaste.Position {
		if query.Failed && run.DeadLetterID != 0 {
			return posthaste.Position(run.DeadLetterID)
		}
		return run.Position
	}
	low, high := at(a.any()), at(a.any())
	query.Low, query.High = min(low, high), max(low, high)-posthaste.Position(a.rng.IntN(2))
	a.compare(tr, query)
}

// answer lists what a query must return.
func (a *archive) answer(query store.RunQuery) []posthaste.Position {
	var matching []posthaste.Position
	for _, run := range a.runs {
		at := run.Position
		if query.Failed {
			if a.inDLQ[run.DeadLetterID] == nil {
				continue
			}
			at = posthaste.Position(run.DeadLetterID)
		}
		if at >= query.Low && at <= query.High && query.Filter.MatchesRun(run) {
			matching = append(matching, at)
		}
	}
	slices.Sort(matching)
	if !query.OldestFirst {
		slices.Reverse(matching)
	}
	return matching
}

// compare requires the answer to a query to be what a look at every run finds.
func (a *archive) compare(tr *trial, query store.RunQuery) {
	tr.Helper()
	runs, letters, err := readRuns(tr.Context(), tr.store, ann, query)
	if err != nil {
		tr.Fatal(err)
	}
	if got, want := placesOf(runs, letters), a.answer(query); !slices.Equal(got, want) {
		tr.Errorf("runs for %+v: %v, want %v", query, got, want)
	}
}

// placesOf lists where a query came upon runs.
func placesOf(runs []*posthaste.Run, letters []*posthaste.DeadLetter) []posthaste.Position {
	places := make([]posthaste.Position, len(runs))
	for i, run := range runs {
		places[i] = run.Position
		if len(letters) > 0 {
			places[i] = posthaste.Position(letters[i].ID)
		}
	}
	return places
}

// page reads page by page, and between pages changes runs, starts and buries others,
// and takes some out of the DLQ, also the one the next page begins with. What was
// there before and is there in the end must be seen once, nothing twice.
func (a *archive) page(tr *trial, query store.RunQuery) {
	tr.Helper()
	before, seen := a.answer(query), map[posthaste.Position]int{}
	whole := query
	for pages := 0; ; pages++ {
		page, err := tr.store.Runs(tr.Context(), ann, query)
		if err != nil || pages == 1000 {
			tr.Fatalf("Runs, page %d: %v", pages, err)
		}
		for _, at := range placesOf(page.Runs, page.DeadLetters) {
			seen[at]++
		}
		if !page.More {
			break
		}
		if query.OldestFirst {
			query.Low = page.Next
		} else {
			query.High = page.Next
		}
		if pages < 5 {
			a.addToDLQ(tr, tr.firstOf(tr.start(runVariety(a.rng))))
			a.shake(tr)
			if next := a.inDLQ[posthaste.DeadLetterID(page.Next)]; next != nil {
				a.removeFromDLQ(tr, next)
			}
		}
	}
	a.refresh(tr)
	after := a.answer(whole)
	for _, at := range before {
		if seen[at] != 1 && slices.Contains(after, at) {
			tr.Errorf("what is at %d was seen %d times, want once", at, seen[at])
		}
	}
	for at, times := range seen {
		if times > 1 {
			tr.Errorf("what is at %d was seen %d times", at, times)
		}
	}
}
