"""Convert user inputs (text, chats, tensors, images, audio) to model inputs and named tokens.

Do not add code that runs a model here.

    answer_tokens       Find the answer tokens to explain: the whole answer, some words of it, or a
                        range.
    chats               Render the messages of a chat as one text, and locate each message in it.
    continuation        Combine a prompt with its continuation, and find the position that produced
                        each token.
    decoder_inputs      Prepare the tokens that the decoder of an encoder-decoder model reads.
    documents           Find documents that are marked in the messages of a chat, and locate them in
                        the formatted prompt.
    dummy_inputs        Create dummy inputs for a model if the user passes none.
    encoding            Tokenise texts: ids, padding, labels and offsets of tokens.
    generation          Generate a continuation, after checking the options.
    input_checks        Check every input tensor against the model and the other inputs: name,
                        dtype, shape and range.
    image_grids         Find the position of each image token in its image, in one grid of patches
                        or several.
    inputs              Prepare a text or a dict of tensors for a model: check the tensors, move
                        real tokens to the front, and send the tensors to the model's device.
    media_labels        Label the tokens of images and audio in a text.
    media_prompts       A prompt with images or audio: a chat with such parts, a dict, or tensors.
    media_spans         Find the tokens of each image and audio clip of a prompt, and the
                        placeholder that they replace.
    padding             Find the real tokens of a batch, and move them to the front.
    pictures            Images for the viewer, as data URIs.
    processing          Turn images and audio into tensors with a processor.
    prompts             A prompt for a language model: a text, the messages of a chat, or token ids.
    segments            Segments: sources grouped by name, such as turns, documents, sentences or
                        paragraphs.
    token_labels        Label tokens that are not words: patches by row and column, frames by time.
    tokens              The tokens of one text: their labels and offsets, and lookup by label.
    vocabulary          Find words and classes by name, name outputs, and check that a tokenizer
                        belongs to a model.
    words               Find the tokens of each word, and merge their scores.
"""
