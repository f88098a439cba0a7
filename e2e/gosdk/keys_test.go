package gosdk

import (
	"errors"
	"testing"

	qstash "github.com/upstash/qstash-go"
)

func TestKeysAndReceiver(t *testing.T) {
	s := newSink(t)
	keys := must(client.Keys().Get())(t)
	receiver := qstash.NewReceiver(keys.Current, keys.Next)
	earlier := signed(t, s, "before the rotation")
	check(t, receiver.Verify(earlier))

	rotated := must(client.Keys().Rotate())(t)
	equal(t, "the new current key", rotated.Current, keys.Next)
	equal(t, "the keys that are read", must(client.Keys().Get())(t), rotated)
	later := signed(t, s, "after the rotation")
	check(t, receiver.Verify(later))
	renewed := qstash.NewReceiver(rotated.Current, rotated.Next)
	check(t, renewed.Verify(later))

	changed := later
	changed.Body = "changed"
	for name, options := range map[string]qstash.VerifyOptions{"an old signature": earlier, "another body": changed} {
		if err := renewed.Verify(options); !errors.Is(err, qstash.ErrInvalidSignature) {
			t.Errorf("%s: error %v, want %v", name, err, qstash.ErrInvalidSignature)
		}
	}
}

// signed publishes a body and returns what a receiver is asked about its delivery.
func signed(t *testing.T, s *sink, body string) qstash.VerifyOptions {
	t.Helper()
	url := s.url + "/signed?a=1"
	receipt := must(client.Publish(qstash.PublishOptions{Url: url, Body: body}))(t)
	got := s.delivered(t, receipt.MessageId)
	return qstash.VerifyOptions{Signature: got.header.Get("Upstash-Signature"), Url: url, Body: got.body}
}
