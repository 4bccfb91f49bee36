"""The shape of an input, for the merged file to choose a kernel by. Plain module: the merge inlines it."""


def shape_key(data: tuple) -> tuple[int, int, int] | None:
    """(batch_size, q_seq_len, kv_seq_len) of an input, or None where its tensors are not of that uniform size.

    Only sizes are looked at: no value is read from the device, so a kernel that is chosen by the key must still
    honour kv_indptr. The order is that of the arguments in task.yml.
    """
    q, kv_data, qo_indptr, kv_indptr, config = data
    batch_size, q_seq_len, kv_seq_len = config["batch_size"], config["q_seq_len"], config["kv_seq_len"]
    total_kv = batch_size * kv_seq_len
    agree = (
        q.shape[0] == batch_size * q_seq_len
        and qo_indptr.shape[0] == batch_size + 1
        and kv_indptr.shape[0] == batch_size + 1
        and kv_data["bf16"].shape[0] == total_kv
        and kv_data["fp8"][0].shape[0] == total_kv
        and kv_data["mxfp4"][0].shape[0] == total_kv
    )
    return (batch_size, q_seq_len, kv_seq_len) if agree else None
