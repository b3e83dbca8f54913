package tokens

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/service/internal/problem"
	"github.com/create-info/persistent-queue/service/internal/tables"
)

func request(from, host, authorization string, headers ...string) *http.Request {
	r := httptest.NewRequest("GET", "http://"+host+"/v1/topics", nil)
	r.RemoteAddr = from
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	return r
}

func TestWithoutTokensNobodyMayCall(t *testing.T) {
	for _, r := range []*http.Request{request("127.0.0.1:9", "localhost:8080", ""), request("[::1]:9", "[::1]:8080", ""), request("127.0.0.1:9", "localhost", "Bearer pq_first_x")} {
		if _, bad := NewSet(nil).Caller(r, time.Now()); bad == nil || bad.Code != problem.Unauthorized {
			t.Errorf("%s at %s may call", r.RemoteAddr, r.Host)
		}
	}
}

func TestWithoutTokensOnlyThisMachineMayCallAServiceThatIsOpenToIt(t *testing.T) {
	s := NewSet(nil)
	for _, r := range []*http.Request{request("127.0.0.1:9", "localhost:8080", ""), request("[::1]:9", "[::1]:8080", ""), request("127.0.0.1:9", "127.0.0.1", "", "Sec-Fetch-Site: same-origin")} {
		if c, bad := s.Caller(r.WithContext(Open(r.Context())), time.Now()); bad != nil || !c.MayTopic(AddTasks, "x") || !c.May(Admin) {
			t.Errorf("%s at %s: %v", r.RemoteAddr, r.Host, bad)
		}
	}
	for _, r := range []*http.Request{
		request("10.0.0.1:9", "localhost", ""), request("127.0.0.1:9", "evil.example", ""), request("127.0.0.1:9", "localhost", "", "X-Forwarded-For: 10.0.0.1"),
		request("127.0.0.1:9", "localhost", "", "Sec-Fetch-Site: cross-site"), request("127.0.0.1:9", "localhost", "Bearer pq_a_b"),
	} {
		if _, bad := s.Caller(r.WithContext(Open(r.Context())), time.Now()); bad == nil || bad.Code != problem.Unauthorized {
			t.Errorf("%s at %s with %v may call", r.RemoteAddr, r.Host, r.Header)
		}
	}
}

func TestATokenMayWhatItsScopesAndTopicsSay(t *testing.T) {
	now := time.Now()
	row, text, err := New("shop", []Scope{AddTasks, ReadTasks}, []string{"shop.*", "mails"}, now.Add(time.Hour), now)
	if err != nil || !strings.HasPrefix(text, "pq_"+row.ID+"_") || strings.Contains(row.Hash, text) {
		t.Fatal(row, text, err)
	}
	s := NewSet([]tables.Token{row})
	c, bad := s.Caller(request("10.0.0.1:9", "evil.example", "Bearer "+text), now)
	if bad != nil {
		t.Fatal(bad)
	}
	for topic, may := range map[string]bool{"shop.orders": true, "mails": true, "mails2": false, "shop": false, "other": false} {
		if c.MayTopic(AddTasks, topic) != may || c.MayTopic(ManageTasks, topic) {
			t.Errorf("%s: %v", topic, !may)
		}
	}
	for _, r := range []*http.Request{
		request("127.0.0.1:9", "localhost", ""), // once there is a token, this machine needs one, too
		request("127.0.0.1:9", "localhost", "Bearer "+text[:len(text)-1]), request("127.0.0.1:9", "localhost", "Bearer "+text+"x"),
		request("127.0.0.1:9", "localhost", "Bearer pq_"+row.ID+"_"), request("127.0.0.1:9", "localhost", "Bearer "), request("127.0.0.1:9", "localhost", "Basic "+text),
	} {
		if _, bad := s.Caller(r.WithContext(Open(r.Context())), now); bad == nil {
			t.Errorf("%q may call", r.Header)
		}
	}
	if _, bad := s.Caller(request("10.0.0.1:9", "h", "Bearer "+text), now.Add(time.Hour)); bad == nil {
		t.Error("it may call after its end")
	}
}

func TestATokenThatCouldDoNothingIsRefused(t *testing.T) {
	for _, c := range []struct {
		scopes []Scope
		topics []string
	}{{nil, []string{"*"}}, {[]Scope{AddTasks}, nil}, {[]Scope{"tasks"}, []string{"*"}}, {[]Scope{AddTasks}, []string{"a b"}}, {[]Scope{AddTasks}, []string{"[a"}}, {[]Scope{AddTasks}, []string{"team-?"}},
		{[]Scope{AddTasks}, []string{"team-[0-9]"}}, {[]Scope{AddTasks}, []string{`team-\\*`}}, {[]Scope{Admin}, []string{"evil.*"}}, {[]Scope{Admin, AddTasks}, []string{"a", "b"}}} {
		if _, _, err := New("", c.scopes, c.topics, time.Time{}, time.Now()); err == nil {
			t.Errorf("%v is taken", c)
		}
	}
}

// A pattern for a template is no topic: a token of an earlier version whose ? fits the * of a pattern would steer topics of others.
func TestAPatternOfATemplateIsWithinThoseOfItsToken(t *testing.T) {
	for _, c := range []struct {
		of, template string
		may          bool
	}{
		{"team-*", "team-*", true}, {"team-*", "team-1*", true}, {"*", "team-*", true}, {"a*b*", "a*b", true},
		{"team-?", "team-*", false}, {"team-[*]", "team-*", false}, {`team-\*`, "team-*", false}, {"team-1*", "team-*", false}, {"*b", "a*", false}, {"a", "*", false},
	} {
		caller := &Caller{scopes: []Scope{ManageTopics}, topics: []string{c.of}}
		if caller.MayTopic(ManageTopics, c.template) != c.may {
			t.Errorf("with %s, a template for %s: %v", c.of, c.template, !c.may)
		}
	}
	if caller := (&Caller{scopes: []Scope{AddTasks}, topics: []string{"team-?"}}); !caller.MayTopic(AddTasks, "team-1") || caller.MayTopic(AddTasks, "team-10") {
		t.Error("a token of an earlier version may not do what it may")
	}
}
