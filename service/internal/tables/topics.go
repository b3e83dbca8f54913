package tables

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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

// ErrTopicLimit is the error of a topic that would be more than there may be.
var ErrTopicLimit = errors.New("as many topics as there may be")

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

// PutTopic makes a topic or, if it is there, gives it another configuration. There are no more topics than limit.
//
// It raises the topics' counter first. So one transaction at a time is here, and what it reads then is the latest.
func (t *Tables) PutTopic(ctx context.Context, name, config string, limit int) (topic Topic, created bool, err error) {
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
			made, err := t.insertTopics(ctx, tx, []Topic{{Name: name, Config: config}}, version, limit)
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
// than limit. Of the topics it needs names, each once, and configurations.
func (t *Tables) MakeTopics(ctx context.Context, topics []Topic, limit int) (all []Topic, err error) {
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
			}, `SELECT job_type, name, config, version, create_time FROM {p}pqueue_topic_tab WHERE name IN (?`+strings.Repeat(", ?", len(names)-1)+`)`, names...)
			if err != nil {
				return err
			}
		}
		made, err := t.insertTopics(ctx, tx, slices.DeleteFunc(slices.Clone(topics), func(topic Topic) bool { return there[topic.Name] }), version, limit)
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
		topic.Version, topic.Deleted, topic.Created = version, true, time.Now()
		return t.exec(ctx, tx, `UPDATE {p}pqueue_topic_tab SET name = ?, version = ?, create_time = ? WHERE job_type = ?`,
			fmt.Sprint(name, deletedMark, topic.Type), version, unix(topic.Created), topic.Type)
	})
	if err != nil {
		return Topic{}, false, fmt.Errorf("delete topic %s: %w", name, err)
	}
	return topic, found, nil
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

// insertTopics gives each topic a job type that no other ever had.
func (t *Tables) insertTopics(ctx context.Context, tx *sql.Tx, topics []Topic, version int64, limit int) ([]Topic, error) {
	if len(topics) == 0 {
		return nil, nil
	}
	there := 0
	err := t.each(ctx, tx, func(scan func(...any) error) error { return scan(&there) }, `SELECT COUNT(*) FROM {p}pqueue_topic_tab WHERE name NOT LIKE ?`, "%"+deletedMark+"%")
	if err != nil {
		return nil, err
	}
	if there+len(topics) > limit {
		return nil, ErrTopicLimit
	}
	last, err := t.raise(ctx, tx, typeCounter, len(topics))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	for n := range topics {
		topics[n].Type, topics[n].Version, topics[n].Created = int32(last)-int32(len(topics)-1-n), version, now
	}
	for some := range slices.Chunk(topics, topicsTogether) {
		var args []any
		for _, topic := range some {
			args = append(args, topic.Type, topic.Name, topic.Config, topic.Version, unix(topic.Created))
		}
		err := t.exec(ctx, tx, `INSERT INTO {p}pqueue_topic_tab (job_type, name, config, version, create_time) VALUES (?, ?, ?, ?, ?)`+strings.Repeat(", (?, ?, ?, ?, ?)", len(some)-1), args...)
		if err != nil {
			return nil, err
		}
	}
	return topics, nil
}
