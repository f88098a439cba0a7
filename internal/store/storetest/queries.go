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

// field is a field of a filter of things. ask makes a filter ask for what a thing has there; it
// returns false if it has nothing.
type field[T any] struct {
	name string
	ask  func(*posthaste.Filter, T) bool
}

// askFor adds a value to a filter, unless it is that of things that have none.
func askFor[V comparable](values *[]V, value V) bool {
	var none V
	if value == none {
		return false
	}
	*values = append(*values, value)
	return true
}

// throughField returns fields of what things have.
func throughField[A, B any](fields []field[A], of func(B) A) (all []field[B]) {
	for _, f := range fields {
		all = append(all, field[B]{f.name, func(filter *posthaste.Filter, thing B) bool { return f.ask(filter, of(thing)) }})
	}
	return all
}

var messageFields = []field[*posthaste.Message]{
	{"MessageIDs", func(f *posthaste.Filter, m *posthaste.Message) bool { return askFor(&f.MessageIDs, m.ID) }},
	{"URLs", func(f *posthaste.Filter, m *posthaste.Message) bool { return askFor(&f.URLs, m.URL) }},
	{"URLGroups", func(f *posthaste.Filter, m *posthaste.Message) bool { return askFor(&f.URLGroups, m.URLGroup) }},
	{"ScheduleIDs", func(f *posthaste.Filter, m *posthaste.Message) bool { return askFor(&f.ScheduleIDs, m.ScheduleID) }},
	{"Queues", func(f *posthaste.Filter, m *posthaste.Message) bool { return askFor(&f.Queues, m.Queue) }},
	{"Labels", func(f *posthaste.Filter, m *posthaste.Message) bool { return askFor(&f.Labels, lastOf(m.Labels)) }},
	{"Hosts", func(f *posthaste.Filter, m *posthaste.Message) bool {
		return askFor(&f.Hosts, first(posthaste.HostAndPath(m.URL)))
	}},
	{"Hosts without port", func(f *posthaste.Filter, m *posthaste.Message) bool {
		return askFor(&f.Hosts, strings.ToUpper(posthaste.HostWithoutPort(first(posthaste.HostAndPath(m.URL)))))
	}},
	{"Paths", func(f *posthaste.Filter, m *posthaste.Message) bool {
		return askFor(&f.Paths, second(posthaste.HostAndPath(m.URL)))
	}},
	{"CallerIPs", func(f *posthaste.Filter, m *posthaste.Message) bool { return askFor(&f.CallerIPs, m.CallerIP) }},
	{"FlowKeys", func(f *posthaste.Filter, m *posthaste.Message) bool { return askFor(&f.FlowKeys, m.FlowControl.Key) }},
}

func lastOf(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	return texts[len(texts)-1]
}

func first[A, B any](a A, _ B) A  { return a }
func second[A, B any](_ A, b B) B { return b }

var eventFields = append(throughField(messageFields, func(e store.Entry) *posthaste.Message { return e.Message }),
	field[store.Entry]{"States", func(f *posthaste.Filter, e store.Entry) bool { return askFor(&f.States, e.State) }},
	field[store.Entry]{"Methods", func(f *posthaste.Filter, e store.Entry) bool { return askFor(&f.Methods, e.Message.Verb()) }},
	field[store.Entry]{"Statuses", func(f *posthaste.Filter, e store.Entry) bool {
		f.Statuses = append(f.Statuses, e.Attempt.Status)
		return e.State.OfAttempt()
	}},
	field[store.Entry]{"a class of Statuses", func(f *posthaste.Filter, e store.Entry) bool {
		for n := range 100 {
			f.Statuses = append(f.Statuses, e.Attempt.Status/100*100+n)
		}
		return e.State.OfAttempt()
	}})

// runEventFields are the fields of a filter that select events of runs.
var runEventFields = []field[store.Entry]{
	{"OfRuns", func(f *posthaste.Filter, _ store.Entry) bool {
		f.OfRuns = true
		return true
	}},
	{"RunIDs", func(f *posthaste.Filter, e store.Entry) bool {
		f.OfRuns = true
		return e.Message.Run != nil && askFor(&f.RunIDs, e.Message.Run.ID)
	}},
	{"WorkflowURLs", func(f *posthaste.Filter, e store.Entry) bool {
		f.OfRuns = true
		return e.Message.Run != nil && askFor(&f.WorkflowURLs, e.Message.Run.URL)
	}},
}

var letterFields = append(throughField(messageFields, func(d *posthaste.DeadLetter) *posthaste.Message { return d.Message }),
	field[*posthaste.DeadLetter]{"DeadLetterIDs", func(f *posthaste.Filter, d *posthaste.DeadLetter) bool { return askFor(&f.DeadLetterIDs, d.ID) }},
	field[*posthaste.DeadLetter]{"Statuses", func(f *posthaste.Filter, d *posthaste.DeadLetter) bool {
		status := 0
		if d.Response != nil {
			status = d.Response.Status
		}
		f.Statuses = append(f.Statuses, status)
		return true
	}})

var runFields = []field[*posthaste.Run]{
	{"Positions", func(f *posthaste.Filter, run *posthaste.Run) bool { return askFor(&f.Positions, run.Position) }},
	{"DeadLetterIDs", func(f *posthaste.Filter, run *posthaste.Run) bool { return askFor(&f.DeadLetterIDs, run.DeadLetterID) }},
	{"RunIDs", func(f *posthaste.Filter, run *posthaste.Run) bool { return askFor(&f.RunIDs, run.ID) }},
	{"RunIDPrefixes", func(f *posthaste.Filter, run *posthaste.Run) bool {
		return askFor(&f.RunIDPrefixes, run.ID[:len("wfr_a")+int(run.Position>>20)%2])
	}},
	{"URLs", func(f *posthaste.Filter, run *posthaste.Run) bool { return askFor(&f.URLs, run.URL) }},
	{"URLPrefixes", func(f *posthaste.Filter, run *posthaste.Run) bool {
		return askFor(&f.URLPrefixes, run.URL[:strings.LastIndexByte(run.URL, '/')])
	}},
	{"Hosts", func(f *posthaste.Filter, run *posthaste.Run) bool {
		return askFor(&f.Hosts, strings.ToUpper(first(posthaste.HostAndPath(run.URL))))
	}},
	{"Paths", func(f *posthaste.Filter, run *posthaste.Run) bool {
		return askFor(&f.Paths, second(posthaste.HostAndPath(run.URL)))
	}},
	{"RunStates", func(f *posthaste.Filter, run *posthaste.Run) bool { return askFor(&f.RunStates, run.State) }},
	{"Labels", func(f *posthaste.Filter, run *posthaste.Run) bool { return askFor(&f.Labels, lastOf(run.Labels)) }},
	{"CallerIPs", func(f *posthaste.Filter, run *posthaste.Run) bool { return askFor(&f.CallerIPs, run.CallerIP) }},
	{"FlowKeys", func(f *posthaste.Filter, run *posthaste.Run) bool { return askFor(&f.FlowKeys, run.FlowControl.Key) }},
	{"CreatedAts", func(f *posthaste.Filter, run *posthaste.Run) bool { return askFor(&f.CreatedAts, run.CreatedAt) }},
	{"CallbackStates", func(f *posthaste.Filter, run *posthaste.Run) bool {
		return run.Reported != nil && askFor(&f.CallbackStates, run.Reported.State)
	}},
	{"Statuses", func(f *posthaste.Filter, run *posthaste.Run) bool {
		f.Statuses = append(f.Statuses, run.FailedStatus)
		return true
	}},
}

// Filters, of each field, for values that nothing has. Some are near to one that something has.
var (
	noMessageHas = map[string]posthaste.Filter{
		"MessageIDs":  {MessageIDs: []posthaste.MessageID{{1, 2, 3}}},
		"States":      {States: []posthaste.State{"LOST"}},
		"URLs":        {URLs: []string{"http://host1.example/path/1"}},
		"URLGroups":   {URLGroups: []string{"group-"}},
		"ScheduleIDs": {ScheduleIDs: []string{"schedule-11"}},
		"Queues":      {Queues: []string{"Queue-1"}},
		"Labels":      {Labels: []string{"label-1,label-2"}},
		"Hosts":       {Hosts: []string{"host1.example:80"}},
		"Paths":       {Paths: []string{"/path/1?query=1"}},
		"CallerIPs":   {CallerIPs: []string{"192.0.2"}},
		"FlowKeys":    {FlowKeys: []string{"flow-1 "}},
	}
	noLetterHas = map[string]posthaste.Filter{
		"DeadLetterIDs": {DeadLetterIDs: []posthaste.DeadLetterID{7}},
		"Statuses":      {Statuses: []int{5}},
		"URLGroups":     {URLGroups: []string{"group-"}},
	}
	noEventOfRunsHas = map[string]posthaste.Filter{
		"RunIDs":       {OfRuns: true, RunIDs: []string{"wfr_"}},
		"WorkflowURLs": {OfRuns: true, WorkflowURLs: []string{"http://Host1.example/path"}},
	}
	noRunHas = map[string]posthaste.Filter{
		"Positions":      {Positions: []posthaste.Position{7}},
		"DeadLetterIDs":  {DeadLetterIDs: []posthaste.DeadLetterID{7}},
		"RunIDs":         {RunIDs: []string{"wfr_"}},
		"RunIDPrefixes":  {RunIDPrefixes: []string{"fr_", "wfr_a1\x00"}},
		"URLs":           {URLs: []string{"http://Host1.example/path"}},
		"URLPrefixes":    {URLPrefixes: []string{"host1.example"}},
		"Hosts":          {Hosts: []string{"example"}},
		"Paths":          {Paths: []string{"path"}},
		"RunStates":      {RunStates: []posthaste.RunState{"RUN_LOST"}},
		"Labels":         {Labels: []string{"label-1,label-2"}},
		"CallerIPs":      {CallerIPs: []string{"192.0.2"}},
		"FlowKeys":       {FlowKeys: []string{"flow-1 "}},
		"CreatedAts":     {CreatedAts: []time.Time{start.Add(-time.Millisecond)}},
		"CallbackStates": {CallbackStates: []posthaste.CallbackState{"CALLBACK_LOST"}},
		"Statuses":       {Statuses: []int{500}},
	}
)

// archive is all there is of a kind, which answers to questions are compared with.
type archive[T any] struct {
	*trial
	fields  []field[T]
	things  []T // by position
	at      func(T) posthaste.Position
	matches func(*posthaste.Filter, T) bool
	text    func(T) string
	read    func(question) []T
	rng     *rand.Rand
}

type question struct {
	filter      posthaste.Filter
	low, high   posthaste.Position
	oldestFirst bool
	limit       int
	bytes       int
}

// queryPromises are those of all queries.
func queryPromises[T any](make func(*trial) *archive[T], nothingHas map[string]posthaste.Filter) []promise {
	return []promise{
		{"each field filters alone", func(tr *trial) {
			a := make(tr)
			for _, field := range a.fields {
				for range 3 {
					a.ask(field)
				}
			}
		}},
		{"fields are joined by AND", func(tr *trial) {
			a := make(tr)
			for i, one := range a.fields {
				for _, other := range a.fields[:i] {
					a.ask(one, other)
				}
			}
		}},
		{"any set of fields filters any range, both ends included", func(tr *trial) {
			a := make(tr)
			for range 50 {
				a.askRange()
			}
		}},
		{"what nothing has matches nothing", func(tr *trial) {
			a := make(tr)
			for name, filter := range nothingHas {
				if found := a.read(question{filter: filter, high: posthaste.MaxPosition, limit: plenty}); len(found) > 0 {
					tr.Errorf("%s: %d match %+v", name, len(found), filter)
				}
			}
		}},
	}
}

// any returns something that is there.
func (a *archive[T]) any() T { return a.things[a.rng.IntN(len(a.things))] }

// narrow makes a filter ask for a value of each field.
func (a *archive[T]) narrow(filter *posthaste.Filter, fields ...field[T]) {
	for _, field := range fields {
		for range 10 {
			if field.ask(filter, a.any()) {
				break
			}
		}
	}
}

// ask asks for one value of each field, and then for two, which are united, in one order or the
// other, all at once or page by page.
func (a *archive[T]) ask(fields ...field[T]) {
	a.Helper()
	var filter posthaste.Filter
	for range 2 {
		a.narrow(&filter, fields...)
		limit := []int{7, 50, plenty}[a.rng.IntN(3)]
		a.compare(question{filter: filter, high: posthaste.MaxPosition, oldestFirst: a.rng.IntN(2) == 0, limit: limit})
	}
}

// askRange asks for a few fields between two positions, or two moments.
func (a *archive[T]) askRange() {
	a.Helper()
	q := question{oldestFirst: a.rng.IntN(2) == 0, limit: 1 + a.rng.IntN(20)}
	for range a.rng.IntN(5) {
		a.narrow(&q.filter, a.fields[a.rng.IntN(len(a.fields))])
	}
	one, other := a.at(a.any()), a.at(a.any())
	q.low, q.high = min(one, other), max(one, other)
	switch a.rng.IntN(4) {
	case 0:
		q.low++
	case 1:
		q.high--
	case 2:
		q.low, q.high = posthaste.FirstPosition(q.low.Time()), posthaste.LastPosition(q.high.Time())
	}
	a.compare(q)
}

// answer is what a question must be answered with.
func (a *archive[T]) answer(q question) (matching []T) {
	for _, thing := range a.things {
		if at := a.at(thing); at >= q.low && at <= q.high && a.matches(&q.filter, thing) {
			matching = append(matching, thing)
		}
	}
	if !q.oldestFirst {
		slices.Reverse(matching)
	}
	return matching
}

// compare requires the answer to a question to be what a look at everything finds.
func (a *archive[T]) compare(q question) {
	a.Helper()
	if got, want := a.texts(a.read(q)), a.texts(a.answer(q)); !slices.Equal(got, want) {
		a.Errorf("for %+v:\n%s\nwant\n%s", q, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (a *archive[T]) texts(things []T) (texts []string) {
	for _, thing := range things {
		texts = append(texts, a.text(thing))
	}
	return texts
}

// eventArchive is the log of ann, with those fields.
func (tr *trial) eventArchive(entries []store.Entry, fields []field[store.Entry]) *archive[store.Entry] {
	return &archive[store.Entry]{
		trial: tr, fields: fields, things: entries, rng: rand.New(rand.NewPCG(3, 4)),
		at:      func(e store.Entry) posthaste.Position { return e.Position },
		matches: func(f *posthaste.Filter, e store.Entry) bool { return f.MatchesEvent(&e.Event, e.Message) },
		text:    func(e store.Entry) string { return fmt.Sprintf("%d %s %s", e.Position, e.State, e.MessageID) },
		read: func(q question) []store.Entry {
			return tr.events(ann, store.EventQuery{
				Filter: q.filter, Low: q.low, High: q.high, OldestFirst: q.oldestFirst, Limit: q.limit, Bytes: q.bytes,
			})
		},
	}
}
