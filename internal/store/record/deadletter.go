package record

import "posthaste"

// deadLetter is the stored form of a posthaste.DeadLetter. It contains the message, which it may
// outlive.
type deadLetter struct {
	MessageID []byte `cbor:"1,keyasint,omitempty"`
	Message   []byte `cbor:"2,keyasint,omitempty"` // record
	Error     string `cbor:"3,keyasint,omitempty"`
	Response  []byte `cbor:"4,keyasint,omitempty"` // optional record
}

// AppendDeadLetter appends the record of a dead letter without id and user.
func AppendDeadLetter(dst []byte, d *posthaste.DeadLetter) []byte {
	rec := deadLetter{
		MessageID: d.Message.ID[:],
		Message:   AppendMessage(nil, d.Message),
		Error:     d.Error,
	}
	if d.Response != nil {
		rec.Response = AppendResponse(nil, d.Response)
	}
	return encode(dst, &rec)
}

// DecodeDeadLetter decodes a record of AppendDeadLetter.
func DecodeDeadLetter(id posthaste.DeadLetterID, user string, data []byte) (*posthaste.DeadLetter, error) {
	var rec deadLetter
	if err := decode(data, &rec); err != nil {
		return nil, err
	}
	if len(rec.MessageID) != len(posthaste.MessageID{}) {
		return nil, errMessageID
	}
	m, err := DecodeMessage(posthaste.MessageID(rec.MessageID), user, rec.Message)
	if err != nil {
		return nil, err
	}
	d := &posthaste.DeadLetter{ID: id, Message: m, Error: rec.Error}
	if len(rec.Response) > 0 {
		d.Response, err = DecodeResponse(rec.Response)
	}
	return d, err
}
