package postgres

import (
	"encoding/binary"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// term is a hashed value of a field. Matches are compared with the filter, since hashes may
// collide.
type term int64

// The fields. Their numbers are part of stored hashes.
const (
	fieldState byte = iota + 1
	fieldURL
	fieldGroup
	fieldSchedule
	fieldQueue
	fieldLabel
	fieldHost
	fieldPath
	fieldCallerIP
	fieldFlowKey
	fieldRun
	fieldWorkflowURL
	fieldWorkflow // of what belongs to any run
	fieldStatus   // of a response
	fieldCreated  // when a run was created
	fieldCallback // state of a failure callback
)

func textTerm(field byte, value string) term {
	h := fnv.New64a()
	_, _ = h.Write([]byte{field}) // never fails
	_, _ = h.Write([]byte(value))
	return term(h.Sum64())
}

func numberTerm(field byte, value int64) term { return textTerm(field, strconv.FormatInt(value, 10)) }

// messageTerm is the term of a message's events. Its upper half is the creation time, for
// locality.
func messageTerm(id posthaste.MessageID) term {
	made := uint64(id.CreatedAt().UnixMilli()) << 32
	return term(made | uint64(binary.BigEndian.Uint32(id[len(id)-4:])))
}

// messageTerms are the terms of all events of a message.
func messageTerms(m *posthaste.Message) []term {
	host, path := posthaste.HostAndPath(m.URL)
	terms := append(identityTerms(m), textTerm(fieldHost, host), textTerm(fieldPath, path))
	if bare := store.HostWithoutPort(host); bare != host {
		terms = append(terms, textTerm(fieldHost, bare))
	}
	if m.Run != nil {
		terms = append(terms, workflowTerm, textTerm(fieldRun, m.Run.ID), textTerm(fieldWorkflowURL, m.Run.URL))
	}
	return terms
}

var workflowTerm = textTerm(fieldWorkflow, "")

// identityTerms are the terms of a message in the log and in the DLQ.
func identityTerms(m *posthaste.Message) []term {
	terms := []term{messageTerm(m.ID), textTerm(fieldURL, m.URL)}
	for field, value := range map[byte]string{
		fieldGroup:    m.URLGroup,
		fieldSchedule: m.ScheduleID,
		fieldQueue:    m.Queue,
		fieldCallerIP: m.CallerIP,
		fieldFlowKey:  m.FlowControl.Key,
	} {
		if value != "" {
			terms = append(terms, textTerm(field, value))
		}
	}
	for _, label := range m.Labels {
		terms = append(terms, textTerm(fieldLabel, label))
	}
	return terms
}

// termQuery is a filter as terms: a match has a term of each list.
type termQuery [][]term

// addTerms adds the values of a field, if there are any.
func addTerms[T any](q termQuery, values []T, of func(T) term) termQuery {
	if len(values) == 0 {
		return q
	}
	terms := make([]term, len(values))
	for i, value := range values {
		terms[i] = of(value)
	}
	return append(q, terms)
}

func (q termQuery) texts(field byte, values []string) termQuery {
	return addTerms(q, values, func(v string) term { return textTerm(field, v) })
}

func (q termQuery) numbers(field byte, values []int) termQuery {
	return addTerms(q, values, func(v int) term { return numberTerm(field, int64(v)) })
}

// eventTermQuery translates a filter of events.
func eventTermQuery(f *store.EventFilter) termQuery {
	q := addTerms(nil, f.MessageIDs, messageTerm).
		texts(fieldURL, f.URLs).
		texts(fieldGroup, f.URLGroups).
		texts(fieldSchedule, f.ScheduleIDs).
		texts(fieldQueue, f.Queues).
		texts(fieldLabel, f.Labels).
		texts(fieldPath, f.Paths).
		texts(fieldCallerIP, f.CallerIPs).
		texts(fieldFlowKey, f.FlowKeys)
	q = addTerms(q, f.States, func(s posthaste.State) term { return textTerm(fieldState, string(s)) })
	q = addTerms(q, f.Hosts, func(host string) term { return textTerm(fieldHost, strings.ToLower(host)) })
	if f.Runs {
		q = append(q, []term{workflowTerm}).texts(fieldRun, f.RunIDs).texts(fieldWorkflowURL, f.WorkflowURLs)
	}
	return q
}

func runTerms(run *posthaste.Run) []term { return append(commonTerms(run), stateTerm(run.State)) }

// commonTerms are the terms of a run in the DLQ and elsewhere.
func commonTerms(run *posthaste.Run) []term {
	terms := []term{textTerm(fieldRun, run.ID), textTerm(fieldURL, run.URL)}
	if run.CallerIP != "" {
		terms = append(terms, textTerm(fieldCallerIP, run.CallerIP))
	}
	if run.FlowControl.Key != "" {
		terms = append(terms, textTerm(fieldFlowKey, run.FlowControl.Key))
	}
	for _, label := range run.Labels {
		terms = append(terms, textTerm(fieldLabel, label))
	}
	return terms
}

// failureTerms are the terms of an entry in the DLQ of runs.
func failureTerms(run *posthaste.Run) []term {
	return append(commonTerms(run),
		createdTerm(run.CreatedAt), numberTerm(fieldStatus, int64(run.FailedStatus)), callbackTerm(run.CallbackState()))
}

func stateTerm(state posthaste.RunState) term { return textTerm(fieldState, string(state)) }

func createdTerm(at time.Time) term { return numberTerm(fieldCreated, at.UnixMilli()) }

func callbackTerm(state posthaste.CallbackState) term { return textTerm(fieldCallback, string(state)) }

// runTermQuery translates a filter of runs, and reports whether the terms are all of it.
func runTermQuery(query *store.RunQuery) (q termQuery, whole bool) {
	f := &query.Filter
	q = q.texts(fieldRun, f.IDs).
		texts(fieldURL, f.URLs).
		texts(fieldLabel, f.Labels).
		texts(fieldCallerIP, f.CallerIPs).
		texts(fieldFlowKey, f.FlowKeys)
	whole = len(f.IDPrefixes)+len(f.URLPrefixes)+len(f.Hosts)+len(f.Paths) == 0
	if !query.Failed {
		q = addTerms(q, f.States, stateTerm)
		return q, whole && len(f.DeadLetterIDs)+len(f.CreatedAts)+len(f.CallbackStates)+len(f.Statuses) == 0
	}
	q = addTerms(q, f.CreatedAts, createdTerm)
	q = addTerms(q, f.CallbackStates, callbackTerm)
	return q.numbers(fieldStatus, f.Statuses), whole && len(f.Positions)+len(f.States) == 0
}

// termsBefore is the terms of a run as it was read.
type termsBefore struct {
	terms   []term
	letter  posthaste.DeadLetterID // 0: it was not in the DLQ
	failure []term
}

func newTermsBefore(run *posthaste.Run) *termsBefore {
	return &termsBefore{runTerms(run), run.DeadLetterID, failureTerms(run)}
}

// indexRun updates the terms of a run. was is nil for a new one.
func (r *runTx) indexRun(run *posthaste.Run, was *termsBefore) {
	if was == nil {
		was = &termsBefore{}
	}
	r.reindex(r.user, usageRuns, int64(run.Position), was.terms, runTerms(run))
	if was.letter != 0 && was.letter == run.DeadLetterID && !r.removed[posthaste.Position(was.letter)] {
		r.reindexFailed(int64(was.letter), was.failure, failureTerms(run))
	}
}

// reindexFailed updates the terms of an entry in the DLQ of runs, if it exists: a run keeps
// the id of an entry that was removed.
func (r *runTx) reindexFailed(id int64, before, after []term) {
	r.reindex(r.user, usageFailedRuns, id, without(before, after), nil)
	if fresh := without(after, before); len(fresh) > 0 {
		r.exec(`
			INSERT INTO posthaste.terms (user_id, kind, at, term)
			SELECT user_id, $2, id, unnest($4::bigint[]) FROM posthaste.run_dead_letters WHERE user_id = $1 AND id = $3
			ON CONFLICT DO NOTHING`, r.user, usageFailedRuns, id, int64s(fresh))
	}
}
