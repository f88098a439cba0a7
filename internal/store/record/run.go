package record

import (
	"slices"

	"posthaste"
)

// runRef is the stored form of a posthaste.RunRef.
type runRef struct {
	ID        string `cbor:"1,keyasint,omitempty"`
	CreatedAt int64  `cbor:"2,keyasint,omitempty"`
	Position  uint64 `cbor:"3,keyasint,omitempty"`
	URL       string `cbor:"4,keyasint,omitempty"`
}

func newRunRef(ref posthaste.RunRef) runRef {
	return runRef{ID: ref.ID, CreatedAt: toMilli(ref.CreatedAt), Position: uint64(ref.Position), URL: ref.URL}
}

func newOptionalRef(ref *posthaste.RunRef) *runRef {
	if ref == nil {
		return nil
	}
	rec := newRunRef(*ref)
	return &rec
}

func (rec *runRef) restore() posthaste.RunRef {
	return posthaste.RunRef{
		ID:        rec.ID,
		CreatedAt: fromMilli(rec.CreatedAt),
		Position:  posthaste.Position(rec.Position),
		URL:       rec.URL,
	}
}

func (rec *runRef) restoreOptional() *posthaste.RunRef {
	if rec == nil {
		return nil
	}
	ref := rec.restore()
	return &ref
}

// runLink is the stored form of a posthaste.RunLink.
type runLink struct {
	Run      runRef `cbor:"1,keyasint"`
	CallType string `cbor:"2,keyasint,omitempty"`
	Entry    int    `cbor:"3,keyasint,omitempty"`
	Features uint8  `cbor:"4,keyasint,omitempty"`

	ListBytes int `cbor:"5,keyasint,omitempty"`
}

func newRunLink(link *posthaste.RunLink) *runLink {
	if link == nil {
		return nil
	}
	return &runLink{
		Run:      newRunRef(link.RunRef),
		CallType: string(link.CallType),
		Entry:    link.Entry,
		Features: uint8(link.Features),

		ListBytes: link.ListBytes,
	}
}

func (rec *runLink) restore() *posthaste.RunLink {
	if rec == nil {
		return nil
	}
	return &posthaste.RunLink{
		RunRef:   rec.Run.restore(),
		CallType: posthaste.CallType(rec.CallType),
		Entry:    rec.Entry,
		Features: posthaste.Features(rec.Features),

		ListBytes: rec.ListBytes,
	}
}

// run is the stored form of a posthaste.Run without progress.
type run struct {
	Run          runRef   `cbor:"1,keyasint"`
	CallerIP     string   `cbor:"2,keyasint,omitempty"`
	Features     uint8    `cbor:"3,keyasint,omitempty"`
	LazySDK      bool     `cbor:"4,keyasint,omitempty"`
	Settings     settings `cbor:"5,keyasint"`
	Invoker      *runRef  `cbor:"6,keyasint,omitempty"`
	Origin       *runRef  `cbor:"7,keyasint,omitempty"`
	OriginLetter uint64   `cbor:"8,keyasint,omitempty"`
	FirstID      []byte   `cbor:"9,keyasint,omitempty"`
	Overridden   uint8    `cbor:"10,keyasint,omitempty"`
	Queue        string   `cbor:"11,keyasint,omitempty"`
	Resumed      bool     `cbor:"12,keyasint,omitempty"`
}

// AppendRun appends the record of a run without user and progress.
func AppendRun(dst []byte, r *posthaste.Run) []byte {
	rec := run{
		Run:      newRunRef(r.RunRef),
		CallerIP: r.CallerIP,
		Features: uint8(r.Features),
		LazySDK:  r.LazySDK,
		Queue:    r.Queue,
		Settings: newSettings(&r.Settings),
		Invoker:  newOptionalRef(r.Invoker),
		FirstID:  optionalID(r.FirstID),

		Overridden: uint8(r.Overridden),
	}
	if r.Origin != nil {
		rec.Origin, rec.OriginLetter = newOptionalRef(&r.Origin.RunRef), uint64(r.Origin.DeadLetterID)
		rec.Resumed = r.Origin.Resumed
	}
	return encode(dst, &rec)
}

// DecodeRun decodes a record of AppendRun.
func DecodeRun(user string, data []byte) (*posthaste.Run, error) {
	var rec run
	if err := decode(data, &rec); err != nil {
		return nil, err
	}
	r := &posthaste.Run{
		RunRef:   rec.Run.restore(),
		User:     user,
		CallerIP: rec.CallerIP,
		Features: posthaste.Features(rec.Features),
		LazySDK:  rec.LazySDK,
		Queue:    rec.Queue,
		Invoker:  rec.Invoker.restoreOptional(),

		Overridden: posthaste.Overridden(rec.Overridden),
	}
	if rec.Origin != nil {
		r.Origin = &posthaste.RunOrigin{
			RunRef: rec.Origin.restore(), DeadLetterID: posthaste.DeadLetterID(rec.OriginLetter), Resumed: rec.Resumed,
		}
	}
	var err error
	if r.FirstID, err = restoreID(rec.FirstID); err != nil {
		return nil, err
	}
	return r, rec.Settings.restore(&r.Settings)
}

// runProgress is the stored form of a posthaste.RunProgress.
type runProgress struct {
	State         string       `cbor:"1,keyasint,omitempty"`
	Entries       int          `cbor:"2,keyasint,omitempty"`
	CompletedAt   int64        `cbor:"3,keyasint,omitempty"`
	Result        *string      `cbor:"4,keyasint,omitempty"` // empty differs from none
	DeadLetterID  uint64       `cbor:"5,keyasint,omitempty"`
	FailedID      []byte       `cbor:"6,keyasint,omitempty"`
	FailedStatus  int          `cbor:"7,keyasint,omitempty"`
	Reported      *runCallback `cbor:"8,keyasint,omitempty"`
	Successor     *runRef      `cbor:"9,keyasint,omitempty"`
	BufferedBytes int          `cbor:"10,keyasint,omitempty"`
	ListBytes     int          `cbor:"11,keyasint,omitempty"`
}

// runCallback is the stored form of a posthaste.RunCallback.
type runCallback struct {
	MessageID []byte `cbor:"1,keyasint,omitempty"`
	URL       string `cbor:"2,keyasint,omitempty"`
	State     string `cbor:"3,keyasint,omitempty"`
	NotFound  bool   `cbor:"4,keyasint,omitempty"`
	Response  []byte `cbor:"5,keyasint,omitempty"` // optional record
	Error     string `cbor:"6,keyasint,omitempty"`
}

// AppendRunProgress appends the record of a run's progress.
func AppendRunProgress(dst []byte, p *posthaste.RunProgress) []byte {
	return encode(dst, &runProgress{
		State:         string(p.State),
		Entries:       p.Entries,
		CompletedAt:   toMilli(p.CompletedAt),
		Result:        p.Result,
		DeadLetterID:  uint64(p.DeadLetterID),
		FailedID:      optionalID(p.FailedID),
		FailedStatus:  p.FailedStatus,
		Reported:      newRunCallback(p.Reported),
		Successor:     newOptionalRef(p.Successor),
		BufferedBytes: p.BufferedBytes,
		ListBytes:     p.ListBytes,
	})
}

// DecodeRunProgress decodes a record of AppendRunProgress.
func DecodeRunProgress(data []byte) (posthaste.RunProgress, error) {
	var rec runProgress
	if err := decode(data, &rec); err != nil {
		return posthaste.RunProgress{}, err
	}
	p := posthaste.RunProgress{
		State:         posthaste.RunState(rec.State),
		Entries:       rec.Entries,
		CompletedAt:   fromMilli(rec.CompletedAt),
		Result:        rec.Result,
		DeadLetterID:  posthaste.DeadLetterID(rec.DeadLetterID),
		FailedStatus:  rec.FailedStatus,
		Successor:     rec.Successor.restoreOptional(),
		BufferedBytes: rec.BufferedBytes,
		ListBytes:     rec.ListBytes,
	}
	var err error
	if p.FailedID, err = restoreID(rec.FailedID); err != nil {
		return posthaste.RunProgress{}, err
	}
	p.Reported, err = rec.Reported.restore()
	return p, err
}

func newRunCallback(c *posthaste.RunCallback) *runCallback {
	if c == nil {
		return nil
	}
	rec := &runCallback{
		MessageID: optionalID(c.MessageID),
		URL:       c.URL,
		State:     string(c.State),
		NotFound:  c.NotFound,
		Error:     c.Error,
	}
	if c.Response != nil {
		rec.Response = AppendResponse(nil, c.Response)
	}
	return rec
}

func (rec *runCallback) restore() (*posthaste.RunCallback, error) {
	if rec == nil {
		return nil, nil
	}
	c := &posthaste.RunCallback{
		URL:      rec.URL,
		State:    posthaste.CallbackState(rec.State),
		NotFound: rec.NotFound,
		Error:    rec.Error,
	}
	var err error
	if c.MessageID, err = restoreID(rec.MessageID); err != nil {
		return nil, err
	}
	if len(rec.Response) > 0 {
		c.Response, err = DecodeResponse(rec.Response)
	}
	return c, err
}

// runEntry is the stored form of a posthaste.RunEntry.
type runEntry struct {
	MessageID []byte `cbor:"1,keyasint,omitempty"`
	CallType  string `cbor:"2,keyasint,omitempty"` // none: step
	Body      []byte `cbor:"3,keyasint,omitempty"`
}

// AppendRunEntry appends the record of an entry without its index.
func AppendRunEntry(dst []byte, e *posthaste.RunEntry) []byte {
	rec := runEntry{MessageID: optionalID(e.MessageID), CallType: string(e.CallType), Body: e.Body}
	if e.CallType == posthaste.CallStep {
		rec.CallType = ""
	}
	const overhead = 32
	return encode(slices.Grow(dst, len(e.Body)+overhead), &rec)
}

// DecodeRunEntry decodes a record of AppendRunEntry. An empty body becomes nil.
func DecodeRunEntry(index int, data []byte) (posthaste.RunEntry, error) {
	var rec runEntry
	if err := decode(data, &rec); err != nil {
		return posthaste.RunEntry{}, err
	}
	id, err := restoreID(rec.MessageID)
	e := posthaste.RunEntry{Index: index, MessageID: id, CallType: posthaste.CallStep, Body: rec.Body}
	if rec.CallType != "" {
		e.CallType = posthaste.CallType(rec.CallType)
	}
	return e, err
}

// waiter is the stored form of a posthaste.Waiter.
type waiter struct {
	Run             runRef   `cbor:"1,keyasint"`
	CreatedAt       int64    `cbor:"2,keyasint,omitempty"`
	After           int      `cbor:"3,keyasint,omitempty"`
	Step            []byte   `cbor:"4,keyasint,omitempty"`
	Topic           string   `cbor:"5,keyasint,omitempty"`
	Invoked         *runRef  `cbor:"6,keyasint,omitempty"`
	Delivery        settings `cbor:"7,keyasint"`
	Deadline        int64    `cbor:"8,keyasint,omitempty"`
	Timeout         string   `cbor:"9,keyasint,omitempty"`
	TimeoutURL      string   `cbor:"10,keyasint,omitempty"`
	TimeoutDelivery settings `cbor:"11,keyasint"`
	URL             string   `cbor:"12,keyasint,omitempty"`
	Header          header   `cbor:"13,keyasint,omitempty"`
	TimeoutBody     []byte   `cbor:"14,keyasint,omitempty"`
	TimeoutHeader   header   `cbor:"15,keyasint,omitempty"`
	MessageID       []byte   `cbor:"16,keyasint,omitempty"`
}

// AppendWaiter appends the record of a waiter without its position.
func AppendWaiter(dst []byte, w *posthaste.Waiter) []byte {
	return encode(dst, &waiter{
		Run:             newRunRef(w.Run),
		CreatedAt:       toMilli(w.CreatedAt),
		After:           w.After,
		Step:            w.Step,
		Topic:           string(w.Topic),
		Invoked:         newOptionalRef(w.Invoked),
		Delivery:        newSettings(&w.Delivery),
		Deadline:        toMilli(w.Deadline),
		Timeout:         w.Timeout,
		TimeoutURL:      w.TimeoutURL,
		TimeoutDelivery: newSettings(&w.TimeoutDelivery),
		URL:             w.Shown.URL,
		Header:          newHeader(w.Shown.Header),
		TimeoutBody:     w.Shown.TimeoutBody,
		TimeoutHeader:   newHeader(w.Shown.TimeoutHeader),
		MessageID:       optionalID(w.MessageID),
	})
}

// DecodeWaiter decodes a record of AppendWaiter.
func DecodeWaiter(at posthaste.Position, data []byte) (*posthaste.Waiter, error) {
	var rec waiter
	if err := decode(data, &rec); err != nil {
		return nil, err
	}
	w := &posthaste.Waiter{
		Run:        rec.Run.restore(),
		Position:   at,
		CreatedAt:  fromMilli(rec.CreatedAt),
		After:      rec.After,
		Step:       rec.Step,
		Topic:      posthaste.Topic(rec.Topic),
		Invoked:    rec.Invoked.restoreOptional(),
		Deadline:   fromMilli(rec.Deadline),
		Timeout:    rec.Timeout,
		TimeoutURL: rec.TimeoutURL,
		Shown:      posthaste.WaiterShown{URL: rec.URL, TimeoutBody: rec.TimeoutBody},
	}
	var err error
	if w.MessageID, err = restoreID(rec.MessageID); err != nil {
		return nil, err
	}
	if err = rec.Delivery.restore(&w.Delivery); err != nil {
		return nil, err
	}
	if err = rec.TimeoutDelivery.restore(&w.TimeoutDelivery); err != nil {
		return nil, err
	}
	if w.Shown.Header, err = rec.Header.restore(); err != nil {
		return nil, err
	}
	w.Shown.TimeoutHeader, err = rec.TimeoutHeader.restore()
	return w, err
}

// optionalID returns nil for the zero id.
func optionalID(id posthaste.MessageID) []byte {
	if id.IsZero() {
		return nil
	}
	return id[:]
}

func restoreID(data []byte) (id posthaste.MessageID, err error) {
	if len(data) == 0 {
		return id, nil
	}
	if len(data) != len(id) {
		return id, errMessageID
	}
	return posthaste.MessageID(data), nil
}

func newIDs(ids []posthaste.MessageID) (data [][]byte) {
	for _, id := range ids {
		data = append(data, id[:])
	}
	return data
}

func restoreIDs(data [][]byte) (ids []posthaste.MessageID, err error) {
	for _, id := range data {
		if len(id) != len(posthaste.MessageID{}) {
			return nil, errMessageID
		}
		ids = append(ids, posthaste.MessageID(id))
	}
	return ids, nil
}
