package app

import (
	"bufio"
	"io"
	"net/http"
	"testing"
)

// TestStopEndsStreams has a client follow the log, which would never end: a server
// that stops does not wait for it, and ends the answer in order.
func TestStopEndsStreams(t *testing.T) {
	server, url := start(t, t.TempDir())
	request, err := http.NewRequest(http.MethodGet, url+"/v2/logs", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Accept", "text/event-stream")
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	stream := bufio.NewReader(response.Body)
	if line, err := stream.ReadString('\n'); err != nil {
		t.Fatalf("the stream begins with %q, %v", line, err)
	}
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, stream); err != nil {
		t.Errorf("the stream ends with %v, want an orderly end", err)
	}
}
