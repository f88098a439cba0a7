package runlog

import (
	"posthaste"
)

// board arranges the steps of a run in groups. Facts are added in the order in which they
// happened; later ones find their step by its id or its call.
type board struct {
	view
	groups []Group
	all    []*progress
	steps  map[int]*progress
	calls  map[posthaste.MessageID]*progress
	told   []*progress // steps with a result, in order
}

// progress is a step and its messages.
type progress struct {
	*Step
	group   int
	work    []posthaste.MessageID // plan, call and response, latest last
	call    *posthaste.Message
	waiting bool
	done    bool
	teller  posthaste.MessageID // message with the result
}

// groups returns the steps of a run in groups.
func (v view) groups() []Group {
	b := &board{view: v, steps: map[int]*progress{}, calls: map[posthaste.MessageID]*progress{}}
	waiters := v.Waiters
	for _, entry := range v.Entries {
		for len(waiters) > 0 && waiters[0].After <= entry.Index {
			b.addWaiter(waiters[0])
			waiters = waiters[1:]
		}
		b.addEntry(entry)
	}
	for _, w := range waiters {
		b.addWaiter(w)
	}
	for _, p := range b.all {
		b.setState(p)
	}
	if next := b.next(); next != nil {
		b.groups = append(b.groups, Group{[]*Step{next}, Next})
	}
	return b.groups
}

func (b *board) addEntry(entry posthaste.RunEntry) {
	switch {
	case entry.Index == 0:
		b.addInitial(entry)
	case entry.CallType == posthaste.CallStep:
		b.addStep(entry)
	case entry.CallType == posthaste.CallRequest:
		b.addCall(entry)
	case entry.CallType == posthaste.CallAnswer:
		b.addResponse(entry)
	}
}

// addInitial adds the payload. Its headers are the trigger's; the message may have more.
func (b *board) addInitial(entry posthaste.RunEntry) {
	p := b.sequential()
	p.describe(initial, b.display)
	p.Out = b.body(entry.Body)
	p.describeMessage(entry.MessageID, b.Messages[entry.MessageID].Message, b.display)
	if !b.resumed() { // the message id is older than the run
		p.CreatedAt = max(p.CreatedAt, b.Run.CreatedAt.UnixMilli())
	}
	p.Header, p.Retries, p.RetryDelay = b.header(b.Run.Header), b.Run.MaxRetries(), b.Run.RetryDelay
	b.finish(p, b.First)
}

// addStep adds a plan or result. An unknown entry is shown as it is.
func (b *board) addStep(entry posthaste.RunEntry) {
	w, ok := readStep(entry.Body)
	if !ok {
		w = written{Out: text(entry.Body)}
	}
	p := b.at(w.stepID(), w.Concurrent)
	p.describe(w, b.display)
	p.describeMessage(entry.MessageID, b.Messages[entry.MessageID].Message, b.display)
	p.describeInvoked(b.Invoked[w.stepID()], b.display)
	if w.isPlan() {
		p.work = append(p.work, entry.MessageID)
		return
	}
	b.finish(p, entry.MessageID)
	if p.call != nil { // the step's own choice
		p.Retries, p.RetryDelay = p.call.MaxRetries(), p.call.RetryDelay
	}
}

func (b *board) addCall(entry posthaste.RunEntry) {
	call := b.Messages[entry.MessageID].Message
	w := stepOfCall(responseHeader(call))
	p := b.at(w.ID, w.Concurrent)
	p.describe(w, b.display)
	p.describeMessage(entry.MessageID, call, b.display)
	p.describeCall(call, entry.Body, b.display)
	p.CallType, p.call = posthaste.CallRequest, call
	p.work = append(p.work, entry.MessageID)
	b.calls[entry.MessageID] = p
}

// addResponse adds a call's response. The call is missing if an earlier run made it.
func (b *board) addResponse(entry posthaste.RunEntry) {
	answer := b.Messages[entry.MessageID].Message
	r := readReport(entry.Body)
	source, _ := posthaste.ParseMessageID(r.SourceMessageID)
	p := b.calls[source]
	if p == nil {
		var w written
		if answer != nil {
			w = stepOfCall(answer.Header)
		}
		p = b.at(w.ID, w.Concurrent)
		p.describe(w, b.display)
		p.describeMessage(entry.MessageID, answer, b.display)
	}
	p.MessageID, p.CallType = entry.MessageID, posthaste.CallAnswer
	p.describeResponse(r, b.display)
	p.work = append(p.work, entry.MessageID)
}

func (b *board) addWaiter(w *posthaste.Waiter) {
	step, _ := readStep(w.Step)
	p := b.at(step.ID, step.Concurrent)
	p.describe(step, b.display)
	p.describeWait(w, b.Invoked[step.ID], b.display)
	p.MessageID, p.CreatedAt = w.MessageID, w.CreatedAt.UnixMilli()
	p.Header, p.Retries, p.RetryDelay = b.header(w.Delivery.Header), b.Run.MaxRetries(), b.Run.RetryDelay
	p.waiting = true
}

// at returns the step with an id (0: a new one) in a group of the given size.
func (b *board) at(id, concurrent int) *progress {
	p := b.steps[id]
	if p == nil {
		if concurrent > 1 {
			p = b.parallel(concurrent)
		} else {
			p = b.sequential()
		}
		if id > 0 {
			b.steps[id] = p
		}
	}
	return p
}

func (b *board) sequential() *progress {
	b.groups = append(b.groups, Group{Type: Sequential})
	return b.add()
}

// parallel adds a step to the last group, if it belongs there, else to a new one.
func (b *board) parallel(size int) *progress {
	last := len(b.groups) - 1
	if last < 0 || b.groups[last].Type != Parallel || len(b.groups[last].Steps) == size {
		b.groups = append(b.groups, Group{Type: Parallel})
	}
	return b.add()
}

// add adds a step to the last group.
func (b *board) add() *progress {
	p := &progress{Step: &Step{}, group: len(b.groups) - 1}
	last := &b.groups[p.group]
	last.Steps = append(last.Steps, p.Step)
	b.all = append(b.all, p)
	return p
}

func (b *board) finish(p *progress, teller posthaste.MessageID) {
	p.done, p.teller = true, teller
	b.told = append(b.told, p)
}

// setState sets the state of a step.
func (b *board) setState(p *progress) {
	switch {
	case !p.done:
		b.setUnfinished(p)
	case b.asleep(p.teller) && p.Type != initial.Type:
		st := b.Messages[p.teller]
		p.State, p.NextAt = stateOf(st), b.nextAt(st)
	default:
		p.State = posthaste.StepSuccess
	}
	for _, id := range p.work {
		if b.failedBy(id) {
			p.State, p.Errors = posthaste.StepFailed, b.errors(id)
		}
	}
}

// setUnfinished sets the state by the step's last message. If that was delivered, the result is
// still expected, unless the run has ended.
func (b *board) setUnfinished(p *progress) {
	p.State = posthaste.StepProgress
	if p.waiting {
		return
	}
	id := p.work[len(p.work)-1]
	st, open := b.delivery(id)
	switch {
	case open:
		p.State, p.NextAt, p.Errors = stateOf(st), b.nextAt(st), b.errors(id)
	case !b.Run.Active():
		p.State = posthaste.StepCancelled
	}
}

// next returns the step that the workflow is about to run, nil if there is none: a result is
// being delivered.
func (b *board) next() *Step {
	if b.Run.State == posthaste.RunSuccess {
		return nil
	}
	var next *Step
	for i, p := range b.told {
		st, open := b.delivery(p.teller)
		if !open || b.asleep(p.teller) && p.Type != initial.Type {
			continue
		}
		last := i == len(b.told)-1 && !b.working()
		if last || st.Retried > 0 || b.failedBy(p.teller) {
			next = b.nextStep(p.teller)
		}
		if b.failedBy(p.teller) {
			break
		}
	}
	return next
}

// working reports whether a step of the last group has no result.
func (b *board) working() bool {
	for _, p := range b.all {
		if p.group == len(b.groups)-1 && !p.done {
			return true
		}
	}
	return false
}

func (b *board) nextStep(teller posthaste.MessageID) *Step {
	st := b.Messages[teller]
	s := &Step{
		MessageID:  teller,
		State:      stateOf(st),
		Retries:    st.Message.MaxRetries(),
		RetryDelay: st.Message.RetryDelay,
		NextAt:     b.nextAt(st),
		Errors:     b.errors(teller),
	}
	if errors := b.Errors[teller]; len(errors) > 0 {
		s.Name = nameOfFailure(errors[len(errors)-1].Response)
	}
	return s
}
