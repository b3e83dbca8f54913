package tables

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// deletedMark and the job type stand behind the name of a deleted topic, which frees the name.
const deletedMark = "~"

// Topic is a row of the topics.
type Topic struct {
	Type    int32
	Name    string
	Config  string // JSON
	Version int64
	Created time.Time
	Deleted bool // then Created is when it was deleted
}

// ErrTopicLimit is the error of a topic that would be more than there may be, and ErrShareLimit of one that would be more than its maker
// may bring them to.
var (
	ErrTopicLimit = errors.New("as many topics as there may be")
	ErrShareLimit = errors.New("as many topics as may fit the patterns")
)

// Limits say how many topics there may be when one is made.
type Limits struct {
	All     int
	Fitting int      // whose names fit one of the patterns; those that are made do
	Like    []string // patterns, in which * stands for any characters and ? for one; none: Fitting means nothing
}

// TopicsSince returns the topics that were made or changed after a version.
func (t *Tables) TopicsSince(ctx context.Context, version int64) (topics []Topic, err error) {
	err = t.each(ctx, t.db, func(scan func(...any) error) error {
		topic, err := scanTopic(scan)
		topics = append(topics, topic)
		return err
	}, `SELECT job_type, name, config, version, create_time FROM {p}pqueue_topic_tab WHERE version > ?`, version)
	if err != nil {
		return nil, fmt.Errorf("read the topics: %w", err)
	}
	return topics, nil
}

func scanTopic(scan func(...any) error) (topic Topic, err error) {
	var created int64
	err = scan(&topic.Type, &topic.Name, &topic.Config, &topic.Version, &created)
	topic.Name, _, topic.Deleted = strings.Cut(topic.Name, deletedMark)
	topic.Created = fromUnix(created)
	return topic, err
}

// PutTopic makes a topic or, if it is there, gives it another configuration. There are no more topics than
// the limits say.
//
// It raises the topics' counter first. So one transaction at a time is here, and what it reads then is the latest.
func (t *Tables) PutTopic(ctx context.Context, name, config string, limits Limits) (topic Topic, created bool, err error) {
	err = t.In(ctx, func(tx *sql.Tx) (err error) {
		version, err := t.raise(ctx, tx, topicsCounter, 1)
		if err != nil {
			return err
		}
		found, err := t.findTopic(ctx, tx, name, &topic)
		if created = !found; err != nil {
			return err
		}
		if created {
			made, err := t.insertTopics(ctx, tx, []Topic{{Name: name, Config: config}}, version, limits)
			if err == nil {
				topic = made[0]
			}
			return err
		}
		topic.Config, topic.Version = config, version
		return t.exec(ctx, tx, `UPDATE {p}pqueue_topic_tab SET config = ?, version = ? WHERE job_type = ?`, config, version, topic.Type)
	})
	if err != nil {
		return Topic{}, false, fmt.Errorf("put topic %s: %w", name, err)
	}
	return topic, created, nil
}

const topicsTogether = 100 // in a statement

// MakeTopics makes those of the topics that are not there, all of them or none, and returns all as they are then. There are no more topics
// than the limits say. Of the topics it needs names, each once, and configurations.
func (t *Tables) MakeTopics(ctx context.Context, topics []Topic, limits Limits) (all []Topic, err error) {
	err = t.In(ctx, func(tx *sql.Tx) (err error) {
		all = nil
		version, err := t.raise(ctx, tx, topicsCounter, 1)
		if err != nil {
			return err
		}
		there := map[string]bool{}
		for some := range slices.Chunk(topics, topicsTogether) {
			names := make([]any, len(some))
			for n, topic := range some {
				names[n] = topic.Name
			}
			err := t.each(ctx, tx, func(scan func(...any) error) error {
				topic, err := scanTopic(scan)
				all, there[topic.Name] = append(all, topic), true
				return err
			}, `SELECT job_type, name, config, version, create_time FROM {p}pqueue_topic_tab WHERE name IN (?`+strings.Repeat(", ?", len(names)-1)+`)`,
				names...)
			if err != nil {
				return err
			}
		}
		made, err := t.insertTopics(ctx, tx, slices.DeleteFunc(slices.Clone(topics), func(topic Topic) bool { return there[topic.Name] }), version, limits)
		all = append(all, made...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make %d topics: %w", len(topics), err)
	}
	return all, nil
}

func (t *Tables) findTopic(ctx context.Context, tx *sql.Tx, name string, topic *Topic) (found bool, err error) {
	err = t.each(ctx, tx, func(scan func(...any) error) (err error) {
		found = true
		*topic, err = scanTopic(scan)
		return err
	}, `SELECT job_type, name, config, version, create_time FROM {p}pqueue_topic_tab WHERE name = ?`, name)
	return found, err
}

// DeleteTopic deletes a topic, if it is there. Its row stays under another name, for the instances that have yet to learn of it, and for
// the tasks that were added to the topic at that moment.
func (t *Tables) DeleteTopic(ctx context.Context, name string) (topic Topic, found bool, err error) {
	err = t.In(ctx, func(tx *sql.Tx) error {
		version, err := t.raise(ctx, tx, topicsCounter, 1)
		if err != nil {
			return err
		}
		if found, err = t.findTopic(ctx, tx, name, &topic); err != nil || !found {
			return err
		}
		now, err := t.now(ctx, tx)
		if err != nil {
			return err
		}
		topic.Version, topic.Deleted, topic.Created = version, true, now
		return t.exec(ctx, tx, `UPDATE {p}pqueue_topic_tab SET name = ?, version = ?, create_time = ? WHERE job_type = ?`,
			fmt.Sprint(name, deletedMark, topic.Type), version, unix(topic.Created), topic.Type)
	})
	if err != nil {
		return Topic{}, false, fmt.Errorf("delete topic %s: %w", name, err)
	}
	return topic, found, nil
}

// DeleteTopics deletes those topics of these job types that are there, and returns them. Their rows stay, as that of DeleteTopic does.
func (t *Tables) DeleteTopics(ctx context.Context, types []int32) (deleted []Topic, err error) {
	err = t.In(ctx, func(tx *sql.Tx) error {
		deleted = nil
		version, err := t.raise(ctx, tx, topicsCounter, 1)
		if err != nil {
			return err
		}
		now, err := t.now(ctx, tx)
		if err != nil {
			return err
		}
		for some := range slices.Chunk(types, topicsTogether) {
			in := " WHERE job_type IN (?" + strings.Repeat(", ?", len(some)-1) + ") AND name NOT LIKE ?"
			args := make([]any, 0, len(some)+1)
			for _, jobType := range some {
				args = append(args, jobType)
			}
			args = append(args, "%"+deletedMark+"%")
			err := t.each(ctx, tx, func(scan func(...any) error) error {
				topic, err := scanTopic(scan)
				topic.Version, topic.Deleted, topic.Created = version, true, now
				deleted = append(deleted, topic)
				return err
			}, `SELECT job_type, name, config, version, create_time FROM {p}pqueue_topic_tab`+in, args...)
			if err == nil {
				err = t.exec(ctx, tx, `UPDATE {p}pqueue_topic_tab SET name = {marked}, version = ?, create_time = ?`+in,
					append([]any{version, unix(now)}, args...)...)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("delete %d topics: %w", len(types), err)
	}
	return deleted, nil
}

// DeletedTopics returns the job types of topics that were deleted before a moment.
func (t *Tables) DeletedTopics(ctx context.Context, before time.Time) (types []int32, err error) {
	err = t.each(ctx, t.db, func(scan func(...any) error) error {
		var jobType int32
		err := scan(&jobType)
		types = append(types, jobType)
		return err
	}, `SELECT job_type FROM {p}pqueue_topic_tab WHERE name LIKE ? AND create_time < ? ORDER BY job_type`, "%"+deletedMark+"%", unix(before))
	if err != nil {
		return nil, fmt.Errorf("read the deleted topics: %w", err)
	}
	return types, nil
}

// ForgetTopics removes the rows of deleted topics. A row that is gone already, or whose topic is not deleted, is left alone.
func (t *Tables) ForgetTopics(ctx context.Context, types []int32) error {
	for _, jobType := range types {
		if err := t.exec(ctx, t.db, `{delete} FROM {p}pqueue_topic_tab WHERE job_type = ? AND name LIKE ?`, jobType, "%"+deletedMark+"%"); err != nil {
			return fmt.Errorf("remove the rows of deleted topics: %w", err)
		}
	}
	return nil
}

// countTopics counts the topics whose names fit one of the patterns. Without patterns, it counts all.
func (t *Tables) countTopics(ctx context.Context, tx *sql.Tx, patterns []string) (count int, err error) {
	query, args := `SELECT COUNT(*) FROM {p}pqueue_topic_tab WHERE name NOT LIKE ?`, []any{"%" + deletedMark + "%"}
	for n, pattern := range patterns {
		query += []string{" AND (", " OR "}[min(n, 1)] + "name LIKE ? ESCAPE '!'"
		args = append(args, likeOf(pattern))
	}
	if len(patterns) > 0 {
		query += ")"
	}
	err = t.each(ctx, tx, func(scan func(...any) error) error { return scan(&count) }, query, args...)
	return count, err
}

var likes = strings.NewReplacer("!", "!!", "%", "!%", "_", "!_", "*", "%", "?", "_")

// likeOf is a pattern as LIKE has it. Of earlier versions' [a-z], it takes any character.
func likeOf(pattern string) string { return likes.Replace(classes.ReplaceAllString(pattern, "?")) }

var classes = regexp.MustCompile(`\[[^\]]*\]`)

// insertTopics gives each topic a job type that no other ever had.
func (t *Tables) insertTopics(ctx context.Context, tx *sql.Tx, topics []Topic, version int64, limits Limits) ([]Topic, error) {
	if len(topics) == 0 {
		return nil, nil
	}
	if there, err := t.countTopics(ctx, tx, nil); err != nil || there+len(topics) > limits.All {
		return nil, cmp.Or(err, ErrTopicLimit)
	}
	if len(limits.Like) > 0 {
		if fitting, err := t.countTopics(ctx, tx, limits.Like); err != nil || fitting+len(topics) > limits.Fitting {
			return nil, cmp.Or(err, ErrShareLimit)
		}
	}
	last, err := t.raise(ctx, tx, typeCounter, len(topics))
	if err != nil {
		return nil, err
	}
	now, err := t.now(ctx, tx)
	if err != nil {
		return nil, err
	}
	for n := range topics {
		topics[n].Type, topics[n].Version, topics[n].Created = int32(last)-int32(len(topics)-1-n), version, now
	}
	for some := range slices.Chunk(topics, topicsTogether) {
		var args []any
		for _, topic := range some {
			args = append(args, topic.Type, topic.Name, topic.Config, topic.Version, unix(topic.Created))
		}
		err := t.exec(ctx, tx,
			`INSERT INTO {p}pqueue_topic_tab (job_type, name, config, version, create_time) VALUES (?, ?, ?, ?, ?)`+strings.Repeat(", (?, ?, ?, ?, ?)",
				len(some)-1), args...)
		if err != nil {
			return nil, err
		}
	}
	return topics, nil
}
