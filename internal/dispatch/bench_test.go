package dispatch

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"

	"posthaste"
)

// BenchmarkAttempt compares an attempt with the least that any client does: a
// bare http.Client sending the same bytes to the same place.
func BenchmarkAttempt(b *testing.B) {
	m := newMessage("http://" + echoOK(b))
	m.Body = bytes.Repeat([]byte("a"), 512)
	m.Header = http.Header{"Content-Type": {"application/json"}}
	m.CallerIP = "192.0.2.7"
	d := newTestDispatcher(b)

	b.Run("client", func(b *testing.B) {
		header, err := d.header(m, nil, 0, "the-signature")
		if err != nil {
			b.Fatal(err)
		}
		client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
		defer client.CloseIdleConnections()
		b.ReportAllocs()
		for b.Loop() {
			req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, m.URL, bytes.NewReader(m.Body))
			if err != nil {
				b.Fatal(err)
			}
			req.Header = header
			resp, err := client.Do(req)
			if err != nil {
				b.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	})
	b.Run("dispatcher", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if got := d.Attempt(b.Context(), m, 0); got.Class != posthaste.OutcomeDelivered {
				b.Fatal(got.Error)
			}
		}
	})
}

// echoOK answers each read with a 200: cheaper than any real server, so that
// the client's share of the time shows.
func echoOK(b *testing.B) string {
	answer := []byte(answerOK)
	return serveTCP(b, func(conn net.Conn) {
		buffer := make([]byte, 8192)
		for {
			if n, _ := conn.Read(buffer); n == 0 {
				return
			}
			if _, err := conn.Write(answer); err != nil {
				return
			}
		}
	})
}
